//! Runs of the operator with a fake terraform and a backup store in memory.

mod destroys;
mod hooks;
mod lifecycle;
mod locks;
mod results;
mod state_backups;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use capt_model::workspaces::WorkspaceKey;
use futures::future::BoxFuture;
use terraform_driver::workspace::WorkspaceBackup;
use tokio::sync::{Semaphore, mpsc};

use super::{
    BackupStore, BackupStoreError, NamespaceShares, NoRunMetrics, RunCapacity, RunKind, RunManager,
    RunPriority, RunRequest, RunResult, RunSnapshot,
};
use crate::pipeline::{
    Goal, WorkspaceJob,
    testing::{FakeSite, job, key},
};

/// A backup store in memory.
#[derive(Default)]
struct MemoryStore {
    backup: Mutex<Option<WorkspaceBackup>>,
    /// Saves that fail before one succeeds.
    failures: AtomicUsize,
    saves: AtomicUsize,
    loads: AtomicUsize,
}

impl MemoryStore {
    fn failing(times: usize) -> Arc<Self> {
        Arc::new(Self { failures: AtomicUsize::new(times), ..Self::default() })
    }

    fn stored(&self) -> WorkspaceBackup {
        self.backup.lock().unwrap().clone().unwrap_or_default()
    }

    fn saves(&self) -> usize {
        self.saves.load(Ordering::Relaxed)
    }
}

impl BackupStore for MemoryStore {
    fn save(&self, backup: WorkspaceBackup) -> BoxFuture<'_, Result<(), BackupStoreError>> {
        Box::pin(async move {
            self.saves.fetch_add(1, Ordering::Relaxed);
            let spend = |left: usize| left.checked_sub(1);
            if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok() {
                return Err("no route to host".into());
            }
            let mut all = self.backup.lock().unwrap();
            let before = all.clone().unwrap_or_default();
            *all = Some(WorkspaceBackup {
                state: backup.state.or(before.state),
                bundle: backup.bundle.or(before.bundle),
                edits: backup.edits,
            });
            Ok(())
        })
    }

    fn edits(&self) -> BoxFuture<'_, Result<u64, BackupStoreError>> {
        Box::pin(std::future::ready(Ok(self.stored().edits)))
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(self.backup.lock().unwrap().clone())))
    }
}

/// The runs of one process.
struct Runs {
    manager: RunManager,
    changes: mpsc::UnboundedReceiver<WorkspaceKey>,
    store: Arc<MemoryStore>,
}

impl Runs {
    fn new(site: &FakeSite) -> Self {
        Self::with_slots(site, 4)
    }

    fn with_slots(site: &FakeSite, slots: usize) -> Self {
        let capacity = RunCapacity {
            max_processes: slots,
            memory_mb: 10_000,
            memory_per_run_mb: 100,
            shares: NamespaceShares::default(),
        };
        let (manager, changes) = RunManager::new(site.open(), capacity, Arc::new(NoRunMetrics));
        Self { manager, changes, store: Arc::default() }
    }

    fn with_store(mut self, store: &Arc<MemoryStore>) -> Self {
        self.store = Arc::clone(store);
        self
    }

    fn start(&self, job: &WorkspaceJob, goal: Goal) -> bool {
        self.start_kind(&job.key, RunKind::Converge { job: Box::new(job.clone()), goal })
    }

    fn start_kind(&self, key: &WorkspaceKey, kind: RunKind) -> bool {
        self.manager.start(RunRequest {
            key: key.clone(),
            object: object_of(key),
            priority: RunPriority::Change,
            kind,
            inputs_hash: "inputs".to_owned(),
            backup_store: self.store.clone(),
        })
    }

    /// Waits until the run of a workspace is as described.
    async fn until(&mut self, key: &WorkspaceKey, is_so: impl Fn(&RunSnapshot) -> bool) -> RunSnapshot {
        loop {
            let found = self.manager.snapshot(key);
            if let Some(found) = found.clone().filter(&is_so) {
                return found;
            }
            assert!(found.is_none_or(|run| !run.is_finished()), "the run has ended before");
            self.changes.recv().await.unwrap();
        }
    }

    async fn finished(&mut self, key: &WorkspaceKey) -> RunSnapshot {
        self.until(key, RunSnapshot::is_finished).await
    }

    async fn run(&mut self, job: &WorkspaceJob, goal: Goal) -> RunSnapshot {
        assert!(self.start(job, goal));
        self.finished(&job.key).await
    }
}

/// The object that owns a workspace.
fn object_of(key: &WorkspaceKey) -> WorkspaceKey {
    WorkspaceKey::new(&key.namespace, &format!("{}-apply", key.name))
}

fn apply() -> Goal {
    Goal::Apply { approved: None }
}

/// A job of another workspace that changes the same cluster.
fn other_job() -> WorkspaceJob {
    let owner = "WorkspaceTemplateApply team/other-apply".to_owned();
    WorkspaceJob { key: WorkspaceKey::new("team", "other"), owner, ..cluster_job() }
}

fn cluster_job() -> WorkspaceJob {
    WorkspaceJob { eks_cluster: Some("demo".to_owned()), ..job() }
}

/// Makes a step wait until the semaphore gets a permit.
fn gate(site: &FakeSite, step: &'static str) -> Arc<Semaphore> {
    let gate = Arc::new(Semaphore::new(0));
    site.with(|script| script.gate = Some((step, Arc::clone(&gate))));
    gate
}

fn failure_message(snapshot: &RunSnapshot) -> &str {
    match &snapshot.result {
        Some(RunResult::Failed(failure)) => &failure.message,
        other => panic!("{other:?}"),
    }
}
