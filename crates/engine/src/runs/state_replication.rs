//! Replication of the state while terraform runs: each version is backed up as soon as the shim has stored its snapshot.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use capt_model::workspaces::WorkspaceKey;
use terraform_driver::{
    clock,
    workspace::{DirectoryWatch, WorkspaceDir, files::create_private_dir},
};
use tokio_util::sync::CancellationToken;

use super::{RunMetrics, WorkspaceMemory, state_backup, state_backup::BackupStore};
use crate::pipeline::SizeLimits;

/// The snapshots are looked at without an event, too: a shim may have been killed while its terraform goes on, and some filesystems
/// have no inotify.
pub(super) const FALLBACK_INTERVAL: Duration = Duration::from_secs(2);

/// Pause after a version that could not be saved.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// A file's timestamp is that of the last timer tick, so it can be this much older than the clock was.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_millis(10);

/// The workspace whose state is replicated, and where to.
pub(super) struct StateReplication {
    pub(super) key: WorkspaceKey,
    pub(super) store: Arc<dyn BackupStore>,
    pub(super) workspace: WorkspaceDir,
    pub(super) memory: Arc<WorkspaceMemory>,
    pub(super) metrics: Arc<dyn RunMetrics>,
    /// Longest time between two looks.
    pub(super) fallback: Duration,
    pub(super) limits: SizeLimits,
}

impl StateReplication {
    /// Backs up every new version of the state until `over` is cancelled.
    pub(super) async fn run(self, over: CancellationToken) {
        let started = SystemTime::from(clock::now()) - TIMESTAMP_GRANULARITY;
        let watch = self.watch_snapshots();
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = next_change(watch.as_ref(), pause) => {}
            }
            pause = if self.back_up(started).await { self.fallback } else { RETRY_INTERVAL };
        }
    }

    /// Returns whether everything is saved; what failed is retried, and once more at the end of the run.
    async fn back_up(&self, started: SystemTime) -> bool {
        if self.limits.check_state(&self.workspace).is_err() {
            // The end of the run reports it.
            return true;
        }
        match state_backup::back_up(self.store.as_ref(), &self.workspace, &self.memory, None).await {
            Ok(written) => {
                // An earlier version was only waiting for this run.
                if let Some(written) = written.filter(|written| *written >= started) {
                    let lag = SystemTime::from(clock::now()).duration_since(written).unwrap_or_default();
                    self.metrics.record_state_lag(lag);
                }
                true
            }
            Err(error) => {
                tracing::warn!(key = %self.key, %error, "state backup failed, will retry");
                false
            }
        }
    }

    fn watch_snapshots(&self) -> Option<DirectoryWatch> {
        let dir = self.workspace.snapshots_dir();
        let made = create_private_dir(&dir).map_err(|error| error.to_string());
        match made.and_then(|()| DirectoryWatch::new(&dir).map_err(|error| error.to_string())) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!(key = %self.key, %error, "cannot watch the state snapshots, polling instead");
                None
            }
        }
    }
}

/// Resolves after a new snapshot, and after `pause` at the latest.
async fn next_change(watch: Option<&DirectoryWatch>, pause: Duration) {
    let changed = async {
        match watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        }
    };
    // Either is a reason to look.
    let _elapsed = tokio::time::timeout(pause, changed).await;
}
