//! State backup: every valid version of the terraform state is copied to a [`BackupStore`] and restored from there when the
//! workspace's directory is lost.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use capt_model::workspaces::WorkspaceKey;
use futures::future::BoxFuture;
use terraform_driver::{
    state::{SnapshotOutcome, StateVersion},
    workspace::{WorkspaceBackup, WorkspaceDir},
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::WorkspaceMemory;
use crate::pipeline::{PipelineError, destroy_bundle};

/// Interval at which the state of a running apply is checked for a new version.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Backup attempts at the end of a run before the run counts as failed.
const MAX_ATTEMPTS: u32 = 5;

/// Why a backup could not be written or read.
pub type BackupStoreError = Box<dyn Error + Send + Sync>;

/// Stores the backup of one workspace outside its directory.
pub trait BackupStore: Send + Sync {
    /// Writes the backup unless the stored one is newer.
    fn save(&self, backup: WorkspaceBackup) -> BoxFuture<'_, Result<(), BackupStoreError>>;

    /// Reads the stored backup, if there is one.
    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>>;
}

/// The backup and the state file have different lineages.
#[derive(Debug, Error)]
#[error(
    "the state backup has a different lineage than the state file in the workspace's directory; compare both, and remove \
     the wrong one"
)]
struct LineageMismatch;

/// Restores the directory from the backup, once per process: another leader may have applied newer versions meanwhile.
pub(super) async fn restore_backup(
    store: &dyn BackupStore,
    workspace: &WorkspaceDir,
) -> Result<(), PipelineError> {
    let fail =
        |source: BackupStoreError| PipelineError::StateBackup { doing: "read the state backup", source };
    let Some(backup) = store.load().await.map_err(fail)? else { return Ok(()) };
    if let Some(bundle) = &backup.bundle {
        destroy_bundle::unpack(workspace, bundle)?;
    }
    if let Some(state) = &backup.state {
        match workspace.snapshots().store_if_newer(state)? {
            SnapshotOutcome::Stored(_) | SnapshotOutcome::AlreadyStored => {}
            SnapshotOutcome::Incomplete | SnapshotOutcome::ForeignLineage => {
                return Err(fail(LineageMismatch.into()));
            }
        }
    }
    Ok(())
}

/// Backs up the newest version of the state unless it is already backed up.
pub(super) async fn back_up(
    store: &dyn BackupStore,
    workspace: &WorkspaceDir,
    seen: &WorkspaceMemory,
    bundle: Option<Vec<u8>>,
) -> Result<(), BackupStoreError> {
    let newest = newest_state(workspace)?;
    let version = newest.as_ref().map(|(version, _)| version.serial);
    if bundle.is_none() && (version.is_none() || seen.backed_up_serial() == version) {
        return Ok(());
    }
    store.save(WorkspaceBackup { state: newest.map(|(_, bytes)| bytes), bundle }).await?;
    seen.set_backed_up_serial(version);
    Ok(())
}

/// The newest version among the snapshots and the state file.
fn newest_state(workspace: &WorkspaceDir) -> Result<Option<(StateVersion, Vec<u8>)>, BackupStoreError> {
    if let Some(bytes) = workspace.state_bytes()? {
        // A state file that is being written does not parse and is skipped; the newest snapshot is used then.
        workspace.snapshots().store_if_newer(&bytes)?;
    }
    match workspace.snapshots().newest()? {
        Some((version, path)) => Ok(Some((version, std::fs::read(path)?))),
        None => Ok(None),
    }
}

/// Backs up with retries: a short outage of the API server must not fail a successful run.
pub(super) async fn back_up_with_retries(
    store: &dyn BackupStore,
    workspace: &WorkspaceDir,
    seen: &WorkspaceMemory,
    bundle: Option<Vec<u8>>,
) -> Result<(), PipelineError> {
    let mut pause = Duration::from_millis(250);
    for attempt in 1.. {
        match back_up(store, workspace, seen, bundle.clone()).await {
            Ok(()) => return Ok(()),
            Err(source) if attempt >= MAX_ATTEMPTS => {
                return Err(PipelineError::StateBackup { doing: "back up the state", source });
            }
            Err(error) => tracing::warn!(%error, attempt, "state backup failed, retrying"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Ok(())
}

/// Backs up every new version of the state until `over` is cancelled.
pub(super) async fn back_up_continuously(
    key: WorkspaceKey,
    store: Arc<dyn BackupStore>,
    workspace: WorkspaceDir,
    seen: Arc<WorkspaceMemory>,
    over: CancellationToken,
) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let begun = Instant::now();
        match back_up(store.as_ref(), &workspace, &seen, None).await {
            Ok(()) => {}
            // Retried at the next poll, and once more at the end of the run.
            Err(error) => {
                tracing::warn!(%key, %error, took = ?begun.elapsed(), "state backup failed, will retry");
            }
        }
    }
}
