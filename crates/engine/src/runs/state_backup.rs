//! State backup: every valid version of the terraform state is copied to a [`BackupStore`] and restored from there when the
//! workspace's directory is lost.

mod exchanged_bundle;
mod known_edits;

use std::{
    error::Error,
    fmt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    hex::hex,
    run::RunHandle,
    state::{SnapshotOutcome, StateVersion},
    workspace::{
        WorkspaceBackup, WorkspaceDir,
        files::{FileError, read_json, write_json},
    },
};
use thiserror::Error;

use self::{exchanged_bundle::ExchangedBundle, known_edits::KnownEdits};
use super::{WorkspaceMemory, journal_store::JournalStore};
use crate::pipeline::{PipelineError, WorkspaceRecord, destroy_bundle};

/// Backup attempts at the end of a run before the run counts as failed.
const MAX_ATTEMPTS: u32 = 5;

/// Why a backup could not be written or read.
pub type BackupStoreError = Box<dyn Error + Send + Sync>;

/// Stores the backup of one workspace outside its directory.
pub trait BackupStore: Send + Sync {
    /// Writes the backup unless the stored one is newer.
    fn save(&self, backup: WorkspaceBackup) -> BoxFuture<'_, Result<(), BackupStoreError>>;

    /// How often the stored state was replaced by hand.
    fn edits(&self) -> BoxFuture<'_, Result<u64, BackupStoreError>>;

    /// Reads the stored backup, if there is one.
    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>>;

    /// Where the journal entries of the workspace are stored; `None` if they are not.
    fn journal(&self) -> Option<&dyn JournalStore> {
        None
    }
}

/// The backup and the state in the directory are two histories.
#[derive(Debug, Error)]
#[error(
    "the state store ({stored}) and {} ({found}) are two histories of one workspace: neither follows from the other, and nothing \
     is planned until one is chosen. Compare both with the cloud. To keep the stored one: `capt state restore NAME SERIAL`; to keep \
     the other one: `capt state push NAME FILE` with this file. The directory is set aside then",
    file.display()
)]
struct ForkedBackup {
    stored: StoredVersion,
    found: StoredVersion,
    file: PathBuf,
}

/// A terraform of an earlier leadership still runs in a directory that is outdated.
#[derive(Debug, Error)]
#[error("a terraform that an earlier leader started still runs in {}; it is left alone until it ends", directory.display())]
struct OutdatedDirectoryInUse {
    directory: PathBuf,
}

/// A version of the state, with a digest of its contents. The last one that was exchanged with the store is in
/// `.capt/backup.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredVersion {
    lineage: String,
    serial: u64,
    sha256: String,
}

impl fmt::Display for StoredVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lineage, serial, sha256 } = self;
        write!(f, "serial {serial}, lineage {lineage}, SHA-256 {}", &sha256[..sha256.len().min(12)])
    }
}

impl StoredVersion {
    fn new(version: StateVersion, bytes: &[u8]) -> Self {
        let StateVersion { lineage, serial } = version;
        Self { lineage, serial, sha256: hex(Sha256::digest(bytes)) }
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self::new(StateVersion::parse(bytes).ok()?, bytes))
    }

    fn read(workspace: &WorkspaceDir) -> Result<Option<Self>, FileError> {
        read_json(&exchanged_path(workspace))
    }

    fn write(&self, workspace: &WorkspaceDir) -> Result<(), FileError> {
        write_json(&exchanged_path(workspace), self)
    }
}

/// How a directory relates to the store.
enum DirectoryAge {
    /// It has what the store has, or follows from it.
    Current,
    /// It has nothing that the store did not have, and the store has gone on.
    Outdated,
    /// Both have gone on.
    Forked,
}

fn exchanged_path(workspace: &WorkspaceDir) -> PathBuf {
    workspace.meta_dir().join("backup.json")
}

/// Whether a person has replaced the stored state since the directory took it over.
pub(super) async fn has_new_edits(
    store: &dyn BackupStore,
    workspace: &WorkspaceDir,
) -> Result<bool, PipelineError> {
    let edits = store.edits().await.map_err(restore_error)?;
    Ok(edits > KnownEdits::read(workspace)?.taken)
}

fn restore_error(source: BackupStoreError) -> PipelineError {
    PipelineError::StateBackup { doing: "restore the state backup", source }
}

/// Restores the directory from the backup, once per process and after every edit by hand: another leader may have applied newer
/// versions meanwhile. Returns where an outdated directory was set aside.
pub(super) async fn restore_backup(
    store: &dyn BackupStore,
    workspace: &WorkspaceDir,
) -> Result<Option<PathBuf>, PipelineError> {
    let Some(backup) = store.load().await.map_err(restore_error)? else { return Ok(None) };
    let stored = backup.state.as_deref().and_then(StoredVersion::of);
    let record = WorkspaceRecord::read(workspace)?;
    let place = record.map_or_else(|| workspace.clone(), |it| workspace.clone().with_root(&it.root));
    let mut set_aside = None;
    if let Some(stored) = &stored {
        match directory_age(&place, stored, backup.edits).map_err(restore_error)? {
            DirectoryAge::Current => {}
            DirectoryAge::Outdated if RunHandle::find_alive(&place)?.is_some() => {
                let directory = place.dir().to_owned();
                return Err(restore_error(OutdatedDirectoryInUse { directory }.into()));
            }
            DirectoryAge::Outdated => {
                set_aside = Some(place.set_aside(exchanged_path(&place).as_path())?);
            }
            DirectoryAge::Forked => return Err(report_fork(workspace, stored.clone(), backup.edits)?),
        }
    }
    if let Some(bundle) = &backup.bundle {
        restore_bundle(workspace, &place, bundle)?;
    }
    if let (Some(state), Some(stored)) = (&backup.state, stored) {
        match workspace.snapshots().store_if_newer(state)? {
            SnapshotOutcome::Stored(_) | SnapshotOutcome::AlreadyStored | SnapshotOutcome::Incomplete => {}
            SnapshotOutcome::Forked { .. } | SnapshotOutcome::ForeignLineage => {
                return Err(report_fork(workspace, stored, backup.edits)?);
            }
        }
        stored.write(workspace)?;
    }
    KnownEdits { taken: backup.edits, reported: None }.write(workspace)?;
    Ok(set_aside)
}

/// Restores configuration and record into an empty directory, and into one whose bundle another leader has replaced since. The
/// other leader may have changed the configuration without changing the state: the replay of what it began needs its
/// configuration.
fn restore_bundle(
    workspace: &WorkspaceDir,
    place: &WorkspaceDir,
    bundle: &[u8],
) -> Result<(), PipelineError> {
    let stored = ExchangedBundle::of(bundle);
    if ExchangedBundle::read(workspace)?.is_some_and(|exchanged| exchanged != stored) {
        if RunHandle::find_alive(place)?.is_some() {
            let directory = place.dir().to_owned();
            return Err(restore_error(OutdatedDirectoryInUse { directory }.into()));
        }
        destroy_bundle::replace(workspace, bundle)?;
    } else {
        destroy_bundle::unpack(workspace, bundle)?;
    }
    Ok(stored.write(workspace)?)
}

/// The error for a fork. It is recorded, so that a later edit by hand decides it.
fn report_fork(
    workspace: &WorkspaceDir,
    stored: StoredVersion,
    edits: u64,
) -> Result<PipelineError, PipelineError> {
    KnownEdits { reported: Some(edits), ..KnownEdits::read(workspace)? }.write(workspace)?;
    let (found, file) = match workspace.snapshots().newest()? {
        Some((version, path)) => {
            let bytes = std::fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
            (StoredVersion::new(version, &bytes), path)
        }
        None => (stored.clone(), workspace.state_path()),
    };
    Ok(restore_error(ForkedBackup { stored, found, file }.into()))
}

/// Whether another leader, or a person, has written the stored version since this directory was in use, and whether the
/// directory has something that the store did not have then.
fn directory_age(
    workspace: &WorkspaceDir,
    stored: &StoredVersion,
    edits: u64,
) -> Result<DirectoryAge, BackupStoreError> {
    let Some(newest) = newest_state(workspace)? else { return Ok(DirectoryAge::Current) };
    let found = newest.stored_version();
    let (exchanged, known) = (StoredVersion::read(workspace)?, KnownEdits::read(workspace)?);
    if edits > known.taken && found != *stored {
        let is_saved = exchanged.is_some_and(|exchanged| exchanged == found);
        let is_decided = known.reported.is_some_and(|reported| reported < edits);
        return Ok(if is_saved || is_decided { DirectoryAge::Outdated } else { DirectoryAge::Forked });
    }
    let is_outdated = match exchanged {
        Some(exchanged) if exchanged == *stored => false,
        // Another lineage: another leader destroyed and created the workspace. A lower serial: the store itself was set back, for
        // example with its cluster's etcd; the directory is newer then.
        Some(exchanged) if exchanged == found => {
            found.lineage != stored.lineage || found.serial < stored.serial
        }
        // A directory with unsaved versions, or one that never exchanged any: only an older serial shows its age.
        Some(_) | None => found.lineage == stored.lineage && found.serial < stored.serial,
    };
    Ok(if is_outdated { DirectoryAge::Outdated } else { DirectoryAge::Current })
}

/// The newest version of a state on the disk.
struct NewestState {
    version: StateVersion,
    bytes: Vec<u8>,
    /// When its snapshot was stored.
    written: Option<SystemTime>,
}

impl NewestState {
    fn stored_version(&self) -> StoredVersion {
        StoredVersion::new(self.version.clone(), &self.bytes)
    }
}

/// Backs up the newest version of the state unless it is already backed up. Returns when a version that was saved was written.
pub(super) async fn back_up(
    store: &dyn BackupStore,
    workspace: &WorkspaceDir,
    seen: &WorkspaceMemory,
    bundle: Option<Vec<u8>>,
) -> Result<Option<SystemTime>, BackupStoreError> {
    let newest = newest_state(workspace)?;
    let version = newest.as_ref().map(NewestState::stored_version);
    if bundle.is_none() && (version.is_none() || seen.backed_up_version() == version) {
        return Ok(None);
    }
    let written = newest.as_ref().and_then(|newest| newest.written);
    let edits = KnownEdits::read(workspace)?.taken;
    let exchanged = bundle.as_deref().map(ExchangedBundle::of);
    store.save(WorkspaceBackup { state: newest.map(|newest| newest.bytes), bundle, edits }).await?;
    if let Some(exchanged) = exchanged {
        exchanged.write(workspace)?;
    }
    if let Some(version) = &version {
        version.write(workspace)?;
    }
    seen.set_backed_up_version(version);
    Ok(written)
}

/// The state that was backed up last, if no newer version is on the disk.
pub(super) fn backed_up_state(
    workspace: &WorkspaceDir,
    seen: &WorkspaceMemory,
) -> Result<Option<Vec<u8>>, BackupStoreError> {
    let newest = newest_state(workspace)?;
    Ok(newest.filter(|newest| seen.backed_up_version() == Some(newest.stored_version())).map(|it| it.bytes))
}

/// The newest version among the snapshots and the state file.
fn newest_state(workspace: &WorkspaceDir) -> Result<Option<NewestState>, BackupStoreError> {
    if let Some(bytes) = workspace.state_bytes()? {
        // A state file that is being written does not parse and is skipped; the newest snapshot is used then.
        workspace.snapshots().store_if_newer(&bytes)?;
    }
    let Some((version, path)) = workspace.snapshots().newest()? else { return Ok(None) };
    let written = path.metadata().and_then(|data| data.modified()).ok();
    Ok(Some(NewestState { version, bytes: std::fs::read(path)?, written }))
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
            Ok(_) => return Ok(()),
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

#[cfg(test)]
mod tests;
