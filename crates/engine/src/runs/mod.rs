//! Terraform runs of the operator: at most one per workspace, executed in background tasks.
//!
//! A reconcile starts a run or reads its [`RunSnapshot`] and returns; it never waits for terraform. Every relevant change of a
//! run sends the key of its object to the receiver returned by [`RunManager::new`], which triggers a reconcile. If the process
//! dies, the terraform processes continue under their shims and the next process takes them over with [`RunManager::adopt_surviving_runs`].
//!
//! This module does not access the Kubernetes API; state backups go through [`BackupStore`].

mod cluster_lock;
mod eks_clusters;
mod fair_queue;
mod journal_replication;
mod journal_store;
mod metrics;
mod retry;
mod run_hooks;
mod run_request;
mod run_snapshot;
mod run_task;
mod scheduler;
mod state_backup;
mod state_replication;
mod surviving_runs;
#[cfg(test)]
mod tests;
mod workspace_memory;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use capt_kinds::api::RunPhase;
use capt_model::workspaces::WorkspaceKey;
pub use fair_queue::NamespaceShares;
pub use journal_store::{JournalStore, JournalStoreError};
pub use metrics::{NoRunMetrics, PhaseGuard, RunMetrics};
pub use retry::{retry_delay, status_class};
pub use run_request::{RunKind, RunRequest};
pub use run_snapshot::{RunResult, RunSnapshot};
pub use scheduler::{RunCapacity, RunPriority};
pub use state_backup::{BackupStore, BackupStoreError};
use terraform_driver::{
    output::Outputs,
    run::RunLease,
    state::State,
    workspace::{WorkspaceError, files::FileError},
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use workspace_memory::WorkspaceMemory;

use self::{cluster_lock::ClusterLocks, scheduler::SlotScheduler};
use crate::pipeline::{DataDirectory, WorkspaceRecord};

/// Minimum interval between two notifications for progress alone. It limits how often the object's status is written.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Starts, tracks and cancels the runs of this process. Cheap to clone.
#[derive(Clone)]
pub struct RunManager {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    data_dir: DataDirectory,
    scheduler: SlotScheduler,
    cluster_locks: ClusterLocks,
    metrics: Arc<dyn RunMetrics>,
    runs: Mutex<BTreeMap<WorkspaceKey, RunEntry>>,
    notifier: mpsc::UnboundedSender<WorkspaceKey>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

struct RunEntry {
    snapshot: RunSnapshot,
    object: WorkspaceKey,
    cancel: CancellationToken,
    memory: Arc<WorkspaceMemory>,
    last_notified: Instant,
    phase_guard: Option<PhaseGuard>,
}

impl RunEntry {
    /// Stops the timer of the previous phase and starts one for the current phase.
    fn restart_phase_timer(&mut self, meter: &dyn RunMetrics) {
        self.phase_guard = None;
        if !self.snapshot.is_finished() {
            self.phase_guard = Some(meter.start_phase(self.snapshot.operation, self.snapshot.phase));
        }
    }
}

impl RunManager {
    /// Creates the manager. The receiver gets the key of an object whenever its run changes.
    pub fn new(
        data_dir: DataDirectory,
        capacity: RunCapacity,
        meter: Arc<dyn RunMetrics>,
    ) -> (Self, mpsc::UnboundedReceiver<WorkspaceKey>) {
        let (listener, changes) = mpsc::unbounded_channel();
        let inner = Inner {
            data_dir,
            scheduler: SlotScheduler::new(capacity),
            cluster_locks: ClusterLocks::default(),
            metrics: meter,
            runs: Mutex::default(),
            notifier: listener,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        };
        (Self { inner: Arc::new(inner) }, changes)
    }

    /// Data directory, engine and AWS endpoint that the runs use.
    pub fn data_dir(&self) -> &DataDirectory {
        &self.inner.data_dir
    }

    /// Binds the runs to the leadership of this process: without it, their terraform and their providers change nothing.
    pub fn set_lease(&self, lease: RunLease) {
        self.inner.data_dir.set_lease(lease);
    }

    /// Starts a run. Returns false if the workspace already has an active run or the manager is closed.
    pub fn start(&self, request: RunRequest) -> bool {
        if self.inner.closing.is_cancelled() {
            return false;
        }
        run_task::spawn_run(&self.inner, request)
    }

    /// Snapshot of the workspace's active or most recent run in this process.
    pub fn snapshot(&self, key: &WorkspaceKey) -> Option<RunSnapshot> {
        self.inner.lock().get(key).map(|entry| entry.snapshot.clone())
    }

    /// Cancels an active run that is not yet changing resources. Returns whether it was cancelled.
    pub fn cancel(&self, key: &WorkspaceKey) -> bool {
        let runs = self.inner.lock();
        let Some(entry) = runs.get(key).filter(|entry| !entry.snapshot.is_finished()) else { return false };
        let early = !entry.snapshot.is_mutating();
        if early {
            entry.cancel.cancel();
        }
        early
    }

    /// Drops a deleted workspace from memory and removes its directory. Does nothing while a run is active.
    pub fn remove_workspace(&self, key: &WorkspaceKey) -> Result<(), FileError> {
        let mut runs = self.inner.lock();
        if runs.get(key).is_some_and(|entry| !entry.snapshot.is_finished()) {
            return Ok(());
        }
        runs.remove(key);
        drop(runs);
        self.inner.data_dir.remove_workspace(self.inner.data_dir.workspace_dir(key))
    }

    /// The object that owns the workspace's directory, if the directory exists.
    pub fn owner(&self, key: &WorkspaceKey) -> Result<Option<String>, FileError> {
        Ok(WorkspaceRecord::read(&self.inner.data_dir.workspace_dir(key))?.map(|record| record.owner))
    }

    /// The owner of the workspace, if it is not `object`.
    pub fn other_owner(
        &self,
        key: &WorkspaceKey,
        object: &WorkspaceKey,
    ) -> Result<Option<String>, FileError> {
        Ok(self.owner(key)?.filter(|owner| *owner != owner_name(object)))
    }

    /// Whether the last apply recorded that the resources are retained on deletion.
    pub fn is_retained(&self, key: &WorkspaceKey) -> Result<bool, FileError> {
        let record = WorkspaceRecord::read(&self.inner.data_dir.workspace_dir(key))?;
        Ok(record.is_some_and(|record| record.retained))
    }

    /// Outputs from the state file in the workspace's directory, if there is one.
    pub fn outputs(&self, key: &WorkspaceKey) -> Result<Option<Outputs>, WorkspaceError> {
        let workspace = self.inner.data_dir.workspace_dir(key);
        let Some(record) = WorkspaceRecord::read(&workspace)? else { return Ok(None) };
        let bytes = record.workspace_dir(&self.inner.data_dir.path, key).state_bytes()?;
        Ok(bytes.and_then(|bytes| Outputs::from_state(&bytes).ok()))
    }

    /// ARNs of the EKS clusters in the state file of the workspace's directory; `None` if there is no readable one.
    pub fn eks_cluster_arns(&self, key: &WorkspaceKey) -> Result<Option<Vec<String>>, WorkspaceError> {
        let workspace = self.inner.data_dir.workspace_dir(key);
        let Some(record) = WorkspaceRecord::read(&workspace)? else { return Ok(None) };
        let bytes = record.workspace_dir(&self.inner.data_dir.path, key).state_bytes()?;
        // A run may be writing it; the next reconcile reads it again.
        let state = bytes.and_then(|bytes| State::parse(&bytes).ok());
        Ok(state.as_ref().map(eks_clusters::cluster_arns))
    }

    /// Finds runs that survived the previous process and holds their cluster locks until they finish. Returns their number.
    pub fn adopt_surviving_runs(&self) -> Result<usize, FileError> {
        surviving_runs::lock_clusters(&self.inner)
    }

    /// Rejects new runs. Active runs continue under their shims and are taken over by the next process.
    pub fn close(&self) {
        self.inner.closing.cancel();
    }

    /// Rejects new runs and waits for the active ones. Runs that are not yet changing resources are cancelled; the others
    /// finish and back up their state, because a new leader on another disk restores from that backup.
    pub async fn drain(&self) {
        self.close();
        for entry in self.inner.lock().values().filter(|entry| !entry.snapshot.is_finished()) {
            if !entry.snapshot.is_mutating() {
                entry.cancel.cancel();
            }
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Number of runs that are executing or queued.
    pub fn active_count(&self) -> usize {
        self.inner.lock().values().filter(|entry| !entry.snapshot.is_finished()).count()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<WorkspaceKey, RunEntry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates phase and progress. A new phase notifies at once; progress alone is rate limited.
    fn update_phase(&self, key: &WorkspaceKey, phase: RunPhase, change: impl FnOnce(&mut RunSnapshot)) {
        let tell = {
            let mut runs = self.lock();
            let Some(entry) = runs.get_mut(key) else { return };
            let before = entry.snapshot.progress.clone();
            let new = entry.snapshot.phase != phase;
            entry.snapshot.phase = phase;
            change(&mut entry.snapshot);
            if new {
                entry.restart_phase_timer(self.metrics.as_ref());
            }
            let moved =
                entry.snapshot.progress != before && entry.last_notified.elapsed() >= PROGRESS_INTERVAL;
            if new || moved {
                entry.last_notified = Instant::now();
            }
            new || moved
        };
        if tell {
            self.notify(key);
        }
    }

    fn update(&self, key: &WorkspaceKey, tell: bool, change: impl FnOnce(&mut RunSnapshot)) {
        if let Some(entry) = self.lock().get_mut(key) {
            let before = entry.snapshot.phase;
            change(&mut entry.snapshot);
            if entry.snapshot.phase != before {
                entry.restart_phase_timer(self.metrics.as_ref());
            }
        }
        if tell {
            self.notify(key);
        }
    }

    fn notify(&self, key: &WorkspaceKey) {
        let object = self.lock().get(key).map(|entry| entry.object.clone());
        if let Some(object) = object {
            // The receiver is dropped during shutdown.
            let _ended = self.notifier.send(object);
        }
    }
}

/// Name of an object as the owner in the record of its workspace.
fn owner_name(object: &WorkspaceKey) -> String {
    format!("WorkspaceTemplateApply {}/{}", object.namespace, object.name)
}
