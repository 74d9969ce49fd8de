//! Pipeline hooks of the operator: run snapshots for the status, scheduler slots, cluster locks and state backups.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant},
};

use capt_kinds::api::{self, RunPhase};
use capt_model::workspaces::WorkspaceKey;
use futures::future::BoxFuture;
use terraform_driver::{
    clock, events::TerraformProgress, plan::PlanSummary, run::StepPhase, workspace::WorkspaceDir,
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Inner, WorkspaceMemory,
    cluster_lock::ClusterName,
    journal_replication::JournalReplication,
    run_snapshot::plan_status,
    scheduler::RunPriority,
    state_backup,
    state_backup::BackupStore,
    state_replication::{FALLBACK_INTERVAL, StateReplication},
};
use crate::gateway::GatewayHandle;
use crate::pipeline::{HookGuard, PipelineError, RunHooks, WorkspaceRecord, destroy_bundle};

/// How long a run waits until the journal of a running gateway is replicated.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Hooks of one run.
pub(super) struct OperatorRunHooks {
    pub(super) inner: Arc<Inner>,
    pub(super) priority: RunPriority,
    pub(super) backup_store: Arc<dyn BackupStore>,
    pub(super) memory: Arc<WorkspaceMemory>,
    pub(super) env: Vec<(String, String)>,
    pub(super) region: Option<String>,
    pub(super) cancelled: CancellationToken,
    /// Whether this run has already backed up the bundle that a destroy needs.
    pub(super) bundle_saved: AtomicBool,
    pub(super) journal_task: Mutex<Option<JournalTask>>,
}

/// The follower of the gateway's journal. It ends when this is dropped.
pub(super) struct JournalTask {
    over: DropGuard,
    ended: JoinHandle<()>,
}

impl RunHooks for OperatorRunHooks {
    fn on_progress(&self, key: &WorkspaceKey, phase: StepPhase, progress: &TerraformProgress) {
        let phase = match phase {
            StepPhase::Initialising => RunPhase::Initializing,
            StepPhase::Planning => RunPhase::Planning,
            StepPhase::Applying => RunPhase::Applying,
            StepPhase::Destroying => RunPhase::Destroying,
            StepPhase::Resuming | StepPhase::Settling => RunPhase::Pending,
        };
        let resumes = phase == RunPhase::Pending;
        let slowest = progress.slowest(clock::now());
        let small = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
        let done = api::Progress {
            done: small(progress.done()),
            total: small(progress.total()),
            slowest_seconds: slowest
                .as_ref()
                .map(|it| i64::try_from(it.elapsed.as_secs()).unwrap_or(i64::MAX)),
            slowest: slowest.map(|it| it.address),
        };
        self.inner.update_phase(key, phase, |view| {
            view.progress = (phase == RunPhase::Applying || phase == RunPhase::Destroying).then_some(done);
            view.waiting_for = resumes.then(|| "a run started by a previous process".to_owned());
        });
    }

    fn add_note(&self, key: &WorkspaceKey, text: &str) {
        self.inner.update(key, true, |view| view.notes.push(text.to_owned()));
    }

    fn set_waiting_for(&self, key: &WorkspaceKey, on: Option<String>) {
        self.inner.update(key, true, |view| {
            if on.is_some() {
                view.phase = RunPhase::Pending;
            }
            view.waiting_for = on;
        });
    }

    fn on_gateway_bypass(&self, key: &WorkspaceKey, why: &str) {
        tracing::warn!(%key, why, "running terraform without the provider gateway");
        self.inner.metrics.record_gateway_bypass();
        self.inner.update(key, true, |view| view.gateway_bypass = Some(why.to_owned()));
    }

    fn acquire_slot<'a>(&'a self, key: &'a WorkspaceKey) -> BoxFuture<'a, HookGuard> {
        Box::pin(async move {
            let begun = Instant::now();
            if self.inner.scheduler.would_wait(&key.namespace, self.priority) {
                self.set_waiting_for(key, Some("a free run slot".to_owned()));
            }
            let place = self.inner.scheduler.acquire_slot(&key.namespace, self.priority).await;
            self.inner.metrics.record_slot_wait(self.priority, begun.elapsed());
            self.set_waiting_for(key, None);
            Box::new(place) as HookGuard
        })
    }

    fn lock_cluster<'a>(&'a self, key: &'a WorkspaceKey, cluster: &'a str) -> BoxFuture<'a, HookGuard> {
        Box::pin(async move {
            let begun = Instant::now();
            let name = ClusterName::new(key, self.region.as_deref(), cluster);
            let lock = match self.inner.cluster_locks.try_lock(&name) {
                Some(lock) => lock,
                None => {
                    self.set_waiting_for(key, Some(format!("the lock on EKS cluster {cluster}")));
                    self.inner.cluster_locks.lock(&name).await
                }
            };
            self.inner.metrics.record_cluster_lock_wait(begun.elapsed());
            self.set_waiting_for(key, None);
            Box::new(lock) as HookGuard
        })
    }

    /// Confirms unless the run was cancelled. Plans that need an approval were already blocked by the guard.
    fn confirm_plan<'a>(&'a self, key: &'a WorkspaceKey, summary: &'a PlanSummary) -> BoxFuture<'a, bool> {
        self.inner.update(key, true, |view| view.plan = Some(plan_status(summary)));
        Box::pin(std::future::ready(!self.cancelled.is_cancelled()))
    }

    fn restore_state<'a>(
        &'a self,
        key: &'a WorkspaceKey,
        workspace: &'a WorkspaceDir,
    ) -> BoxFuture<'a, Result<(), PipelineError>> {
        Box::pin(async move {
            let store = self.backup_store.as_ref();
            if self.memory.is_restored() && !state_backup::has_new_edits(store, workspace).await? {
                return Ok(());
            }
            let outdated = state_backup::restore_backup(store, workspace).await?;
            if let Some(path) = outdated {
                let text = format!(
                    "the directory was older than the state store; restored from there, the old files are in {}",
                    path.display()
                );
                self.add_note(key, &text);
            }
            if self.journal_replication(key, workspace).restore().await? {
                self.add_note(key, "the journal of a lost disk was restored");
            }
            self.memory.set_restored();
            Ok(())
        })
    }

    fn back_up_state<'a>(
        &'a self,
        _: &'a WorkspaceKey,
        workspace: &'a WorkspaceDir,
        _: &'a WorkspaceRecord,
    ) -> BoxFuture<'a, Result<(), PipelineError>> {
        Box::pin(async move {
            let limits = self.inner.data_dir.size_limits();
            limits.check_state(workspace)?;
            let bundle = if self.bundle_saved.load(Ordering::Relaxed) {
                None
            } else {
                destroy_bundle::seal_env(workspace, &self.env)?;
                let bundle = destroy_bundle::pack(workspace)?;
                limits.check_bundle(&bundle)?;
                self.bundle_saved.store(true, Ordering::Relaxed);
                Some(bundle)
            };
            state_backup::back_up_with_retries(self.backup_store.as_ref(), workspace, &self.memory, bundle)
                .await
        })
    }

    fn replicates_journal(&self) -> bool {
        self.backup_store.journal().is_some()
    }

    fn replicate<'a>(&'a self, key: &'a WorkspaceKey, workspace: &'a WorkspaceDir) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.start_state_replication(key, workspace);
            self.start_journal_replication(key, workspace).await;
        })
    }
}

impl OperatorRunHooks {
    /// Backs up every new version of the state until the run finishes.
    fn start_state_replication(&self, key: &WorkspaceKey, workspace: &WorkspaceDir) {
        let replication = StateReplication {
            key: key.clone(),
            store: Arc::clone(&self.backup_store),
            workspace: workspace.clone(),
            memory: Arc::clone(&self.memory),
            metrics: Arc::clone(&self.inner.metrics),
            fallback: FALLBACK_INTERVAL,
            limits: *self.inner.data_dir.size_limits(),
        };
        let over = CancellationToken::new();
        self.memory.set_backup_task(over.clone().drop_guard());
        self.inner.tasks.spawn(replication.run(over));
    }

    /// Follows the gateway's journal until the run finishes. Returns when the entries that a running gateway has are stored, so that
    /// the first change finds the follower; each change waits for itself, too.
    async fn start_journal_replication(&self, key: &WorkspaceKey, workspace: &WorkspaceDir) {
        self.stop_journal_task().await;
        if self.inner.data_dir.gateway.is_none() || !self.replicates_journal() {
            return;
        }
        let (over, (is_ready, mut ready)) = (CancellationToken::new(), watch::channel(false));
        let replication = self.journal_replication(key, workspace);
        let ended = self.inner.tasks.spawn(replication.run(over.clone(), is_ready));
        *self.lock_journal_task() = Some(JournalTask { over: over.drop_guard(), ended });
        if matches!(GatewayHandle::find_running(&self.inner.data_dir.path), Ok(Some(_))) {
            // If it takes longer, the gateway falls back to the disk and says so.
            let _late = timeout(READY_TIMEOUT, ready.wait_for(|is_ready| *is_ready)).await;
        }
    }

    async fn stop_journal_task(&self) {
        let task = self.lock_journal_task().take();
        if let Some(JournalTask { over, ended }) = task {
            drop(over);
            // It ends; a panic in it is logged, and entries that are missing are stored below.
            let _ended = ended.await;
        }
    }

    /// Ends the follower, and stores what is left in the journal.
    pub(super) async fn finish_journal(&self, key: &WorkspaceKey) {
        self.stop_journal_task().await;
        let workspace = self.inner.data_dir.workspace_dir(key);
        let place = match WorkspaceRecord::read(&workspace) {
            Ok(Some(record)) => record.workspace_dir(&self.inner.data_dir.path, key),
            // Nothing was ever applied, or the error is reported by the run.
            Ok(None) | Err(_) => return,
        };
        self.journal_replication(key, &place).finish().await;
    }

    fn journal_replication(&self, key: &WorkspaceKey, workspace: &WorkspaceDir) -> JournalReplication {
        JournalReplication {
            key: key.clone(),
            data: self.inner.data_dir.path.clone(),
            workspace: workspace.clone(),
            store: Arc::clone(&self.backup_store),
            memory: Arc::clone(&self.memory),
            metrics: Arc::clone(&self.inner.metrics),
        }
    }

    fn lock_journal_task(&self) -> MutexGuard<'_, Option<JournalTask>> {
        self.journal_task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the continuous backup when dropped: on the next run of the workspace, or when the run finishes.
pub(super) type BackupTaskGuard = DropGuard;
