//! The pipeline of one workspace: lock, restore the state, recover the previous run, untaint, wait for calls in flight, replay the
//! journal, render, init, probe, plan, guard, apply, back up the state.

use capt_model::workspaces::WorkspaceKey;
use futures::FutureExt as _;
use terraform_driver::{
    command::{PlanMode, UserArgs},
    plan::{GuardPolicy, PlanIntent},
    render::RenderRequest,
    run::{
        ApprovedPlan, Driver, ReattachSource, RefusedPlan, RunHandle, SavedPlan, StepContext,
        interrupted_taints,
    },
    workspace::WorkspaceDir,
};
use tokio_util::sync::CancellationToken;

use super::{
    data_directory::DataDirectory,
    drift_probe,
    error::PipelineError,
    hooks::{HookGuard, RunHooks},
    inflight_barrier,
    journal_replay::{self, JournalReplay},
    orphaned_creates,
    outcome::{DestroyReason, Goal, WorkspaceOutcome},
    prepare::PreparedDir,
    sealed_configuration, untaint,
    workspace_job::WorkspaceJob,
    workspace_record::WorkspaceRecord,
};
use crate::{aws::Principal, gateway::GatewayReattachSource};

/// Runs the steps for one workspace at a time.
pub struct WorkspacePipeline<'a> {
    /// The data directory that holds the workspace.
    pub data_dir: &'a DataDirectory,
    /// Callbacks for slots, cluster locks, progress, confirmation and state backup.
    pub hooks: &'a dyn RunHooks,
    /// Cancelled to stop the run.
    pub stop: &'a CancellationToken,
}

/// How an existing workspace is destroyed.
pub struct DestroyRequest<'a> {
    /// Why it is destroyed; decides whether the plan guard applies.
    pub reason: &'a DestroyReason,
    /// Environment variables of its template.
    pub env: &'a [(String, String)],
    /// The AWS principal; `None` is the operator's own identity.
    pub principal: Option<&'a Principal>,
}

impl WorkspacePipeline<'_> {
    /// Runs one workspace up to `goal`.
    pub async fn run(&self, task: &WorkspaceJob, goal: &Goal) -> Result<WorkspaceOutcome, PipelineError> {
        let (key, workspace) = (&task.key, self.data_dir.workspace_dir(&task.key));
        let _lock = workspace.lock("another run of capt")?;
        self.hooks.restore_state(key, &workspace).await?;
        let before = WorkspaceRecord::read(&workspace)?;
        let environment =
            self.data_dir.environment(&workspace, &task.resolved.env, task.principal.as_ref())?;
        let workspace = before.as_ref().map_or(workspace, |it| it.workspace_dir(&self.data_dir.path, key));
        self.data_dir.size_limits().check_state(&workspace)?;
        let cluster_lock =
            self.lock_cluster_for_leftovers(key, task.eks_cluster.as_deref(), &workspace).await?;
        let slot = self.acquire_slot(key).await?;
        let on_progress = |phase, progress: &_| self.hooks.on_progress(key, phase, progress);
        let (args, stop) = (task.resolved.args.clone(), self.stop);
        let on_bypass = |text: &str| self.hooks.on_gateway_bypass(key, text);
        let reattach_source = self.reattach_source(key, task.principal.as_ref(), &on_bypass);
        let job = StepContext {
            workspace: &workspace,
            environment: &environment,
            args: &args,
            on_progress: &on_progress,
            stop,
            reattach: reattach_source.as_ref().map(|it| it as &dyn ReattachSource),
            lease: self.data_dir.lease(),
        };
        self.recover_previous_run(key, &job, (task.region.as_deref(), task.principal.as_ref())).await?;
        self.replay_journal((key, before.as_ref()), &job, task.principal.as_ref()).await?;
        drop(cluster_lock);
        let PreparedDir { workspace, record, request, orphans: lost } =
            self.prepare(task, &job, before.as_ref()).await?;
        let (job, digests) = (StepContext { workspace: &workspace, ..job }, record.digests());
        self.data_dir.driver.init(&job, &digests).await?;
        orphaned_creates::displace_existing(self.data_dir, &job, &lost).await?;
        self.data_dir.driver.pull_state(&job).await?;
        if let (Goal::DetectDrift | Goal::CorrectDrift, Some(reattach_source)) = (goal, &reattach_source) {
            match drift_probe::is_unchanged(reattach_source, &job, &digests).await? {
                Ok(()) => return Ok(WorkspaceOutcome::Unchanged),
                Err(why) => tracing::debug!(%key, %why, "drift probe inconclusive, planning"),
            }
        }
        let planned = self.data_dir.driver.plan(&job, PlanMode::Change, &digests).await?;
        if let (false, false, Some(reattach_source)) =
            (planned.has_changes, *goal == Goal::Plan, &reattach_source)
        {
            drift_probe::save_fingerprint(reattach_source, &job, &digests).await?;
        }
        let outcome = self.execute_goal((task, &request), goal, &job, (planned, record, slot)).await?;
        self.data_dir.driver.pull_state(&job).await?;
        Ok(outcome)
    }

    /// Reports, applies or discards a plan, depending on the goal.
    async fn execute_goal(
        &self,
        (task, request): (&WorkspaceJob, &RenderRequest),
        goal: &Goal,
        job: &StepContext<'_>,
        (mut planned, mut record, slot): (SavedPlan, WorkspaceRecord, HookGuard),
    ) -> Result<WorkspaceOutcome, PipelineError> {
        match goal {
            Goal::Plan | Goal::DetectDrift if planned.has_changes => {
                // Attribute changes cost a provider start; a plan that only creates does not need them.
                let counts = planned.summary.counts;
                if matches!(goal, Goal::Plan) && counts.change + counts.replace > 0 {
                    self.data_dir.driver.load_attribute_changes(job, &mut planned).await?;
                }
                Driver::discard_plan(job.workspace)?;
                Ok(WorkspaceOutcome::Planned(Box::new(planned.summary)))
            }
            Goal::Apply { .. } | Goal::CorrectDrift if planned.has_changes => {
                let approved = match goal {
                    Goal::Apply { approved } => approved.as_deref(),
                    _ => None,
                };
                let plan = self
                    .guard_plan(&task.key, planned, (PlanIntent::Change, approved), job.workspace)
                    .await?;
                job.workspace.seal()?;
                record.begun = true;
                record.write(job.workspace)?;
                orphaned_creates::record_pending_creates(job.workspace, &plan.summary, request)?;
                self.hooks.back_up_state(&task.key, job.workspace, &record).await?;
                let counts = plan.summary.counts;
                self.hooks.replicate(&task.key, job.workspace).await;
                let done = self.apply_plan(&task.key, task.eks_cluster.as_deref(), job, (plan, slot)).await;
                if done.is_ok() {
                    orphaned_creates::clear_pending_creates(job.workspace)?;
                }
                self.hooks.back_up_state(&task.key, job.workspace, &record).await?;
                if done.is_ok() {
                    journal_replay::forget_journal(&self.data_dir.path, &task.key).await;
                }
                done.map(|()| WorkspaceOutcome::Applied(counts))
            }
            Goal::Plan | Goal::DetectDrift | Goal::CorrectDrift | Goal::Apply { .. } => {
                let applies = matches!(goal, Goal::CorrectDrift | Goal::Apply { .. });
                // A change that needs no change in the cloud, such as of `prevent_destroy`, counts for a destroy.
                if applies && record.begun && !job.workspace.is_sealed()? {
                    job.workspace.seal()?;
                    self.hooks.back_up_state(&task.key, job.workspace, &record).await?;
                }
                orphaned_creates::clear_pending_creates(job.workspace)?;
                Ok(WorkspaceOutcome::Unchanged)
            }
        }
    }

    /// Destroys one workspace with only the contents of its directory.
    pub async fn destroy(
        &self,
        key: &WorkspaceKey,
        record: &WorkspaceRecord,
        how: &DestroyRequest<'_>,
    ) -> Result<WorkspaceOutcome, PipelineError> {
        let workspace = record.workspace_dir(&self.data_dir.path, key);
        let _lock = workspace.lock("another run of capt")?;
        self.data_dir.size_limits().check_state(&workspace)?;
        let environment = self.data_dir.environment(&workspace, how.env, how.principal)?;
        let args = UserArgs::from(&record.args);
        let cluster_lock =
            self.lock_cluster_for_leftovers(key, record.eks_cluster.as_deref(), &workspace).await?;
        let slot = self.acquire_slot(key).await?;
        let on_progress = |phase, progress: &_| self.hooks.on_progress(key, phase, progress);
        let stop = self.stop;
        let on_bypass = |text: &str| self.hooks.on_gateway_bypass(key, text);
        let reattach_source = self.reattach_source(key, how.principal, &on_bypass);
        let job = StepContext {
            workspace: &workspace,
            environment: &environment,
            args: &args,
            on_progress: &on_progress,
            stop,
            reattach: reattach_source.as_ref().map(|it| it as &dyn ReattachSource),
            lease: self.data_dir.lease(),
        };
        self.recover_previous_run(key, &job, (record.region.as_deref(), how.principal)).await?;
        self.replay_journal((key, Some(record)), &job, how.principal).await?;
        drop(cluster_lock);
        sealed_configuration::unseal(&workspace, &self.data_dir.cloud)?;
        let digests = record.digests();
        let credentials = (how.principal, self.stop);
        let lost =
            orphaned_creates::find_orphans(self.data_dir, &workspace, record.region.as_deref(), credentials)
                .await?;
        if workspace.has_remote_state() || !lost.is_empty() {
            self.data_dir.driver.init(&job, &digests).await?;
            orphaned_creates::import_orphans(self.data_dir, &job, &lost).await?;
            self.data_dir.driver.pull_state(&job).await?;
        }
        let objects = count_managed_objects(&workspace)?;
        if objects > 0 {
            self.data_dir.driver.init(&job, &digests).await?;
            let planned = self.data_dir.driver.plan(&job, PlanMode::Destroy, &digests).await?;
            let request = match how.reason {
                DestroyReason::RemovedFromManifests { approved } => (PlanIntent::Change, approved.as_deref()),
                DestroyReason::Requested => (PlanIntent::Destroy, None),
            };
            let plan = self.guard_plan(key, planned, request, &workspace).await?;
            self.hooks.replicate(key, &workspace).await;
            let done = self.apply_plan(key, record.eks_cluster.as_deref(), &job, (plan, slot)).await;
            self.hooks.back_up_state(key, &workspace, record).await?;
            done?;
            self.data_dir.driver.pull_state(&job).await?;
        }
        match count_managed_objects(&workspace)? {
            0 => {
                WorkspaceRecord { begun: false, ..record.clone() }.write(&workspace)?;
                journal_replay::forget_journal(&self.data_dir.path, key).await;
                Ok(WorkspaceOutcome::Destroyed { objects })
            }
            left => Err(PipelineError::ResourcesRemain { left }),
        }
    }

    /// The source of running providers for a workspace's commands; `None` without a gateway.
    fn reattach_source<'b>(
        &'b self,
        key: &WorkspaceKey,
        principal: Option<&Principal>,
        on_bypass: &'b (dyn Fn(&str) + Send + Sync),
    ) -> Option<GatewayReattachSource<'b>> {
        let gateway = self.data_dir.gateway.as_ref()?;
        let tenant = principal.map_or_else(|| Principal::from_default_chain().digest(), Principal::digest);
        let source = GatewayReattachSource::new(gateway, key.to_string(), tenant, on_bypass);
        Some(source.with_replication(self.hooks.replicates_journal()))
    }

    async fn acquire_slot(&self, key: &WorkspaceKey) -> Result<HookGuard, PipelineError> {
        self.unless_stopped(self.hooks.acquire_slot(key)).await
    }

    async fn lock_cluster(&self, key: &WorkspaceKey, cluster: &str) -> Result<HookGuard, PipelineError> {
        self.unless_stopped(self.hooks.lock_cluster(key, cluster)).await
    }

    async fn unless_stopped(
        &self,
        wait: impl Future<Output = HookGuard>,
    ) -> Result<HookGuard, PipelineError> {
        tokio::select! {
            guard = wait => Ok(guard),
            () = self.stop.cancelled() => Err(PipelineError::Interrupted),
        }
    }

    /// Locks the EKS cluster if a previous run left a live command or interrupted resources on it.
    async fn lock_cluster_for_leftovers(
        &self,
        key: &WorkspaceKey,
        cluster: Option<&str>,
        workspace: &WorkspaceDir,
    ) -> Result<Option<HookGuard>, PipelineError> {
        let left = RunHandle::find_alive(workspace)?.is_some()
            || !interrupted_taints(workspace).unwrap_or_default().is_empty();
        match cluster.filter(|_| left) {
            Some(cluster) => Ok(Some(self.lock_cluster(key, cluster).await?)),
            None => Ok(None),
        }
    }

    /// Waits for the calls of a previous run, and writes into the state what they did. Nothing may be planned before.
    async fn replay_journal(
        &self,
        (key, record): (&WorkspaceKey, Option<&WorkspaceRecord>),
        job: &StepContext<'_>,
        principal: Option<&Principal>,
    ) -> Result<(), PipelineError> {
        let (data_dir, hooks, stop) = (self.data_dir, self.hooks, self.stop);
        inflight_barrier::wait_for_calls(&data_dir.path, (key, job.workspace), hooks, stop).await?;
        let Some(record) = record else { return Ok(()) };
        JournalReplay { data_dir, hooks, key, job, record, principal, stop }.run().await
    }

    /// Recovers from a previous run: follows a live command, restores a torn state, untaints interrupted resources.
    async fn recover_previous_run(
        &self,
        key: &WorkspaceKey,
        job: &StepContext<'_>,
        credentials: (Option<&str>, Option<&Principal>),
    ) -> Result<(), PipelineError> {
        if RunHandle::find_alive(job.workspace)?.is_some() {
            self.hooks.replicate(key, job.workspace).await;
        }
        for note in self.data_dir.driver.resume_and_recover(job).await?.notes() {
            self.hooks.add_note(key, &note);
        }
        untaint::untaint_interrupted(self.data_dir, job, credentials).await?;
        Ok(())
    }

    /// Rejects a destructive plan that is neither approved nor a requested destroy, then asks for confirmation.
    async fn guard_plan(
        &self,
        key: &WorkspaceKey,
        planned: SavedPlan,
        (intent, approval): (PlanIntent, Option<&str>),
        workspace: &WorkspaceDir,
    ) -> Result<ApprovedPlan, PipelineError> {
        match planned.approve(&GuardPolicy::default(), intent, approval) {
            Ok(plan) => {
                self.confirm_plan(key, &plan, workspace).await?;
                Ok(plan)
            }
            Err(refused) => {
                Driver::discard_plan(workspace)?;
                let RefusedPlan { plan, reasons } = *refused;
                Err(PipelineError::Blocked { reasons, hash: plan.summary.hash.as_str().to_owned() })
            }
        }
    }

    /// Asks for confirmation of a plan; discards the plan if it is declined.
    async fn confirm_plan(
        &self,
        key: &WorkspaceKey,
        planned: &SavedPlan,
        workspace: &WorkspaceDir,
    ) -> Result<(), PipelineError> {
        let refusal = tokio::select! {
            yes = self.hooks.confirm_plan(key, &planned.summary) => {
                if yes {
                    return Ok(());
                }
                PipelineError::NotConfirmed
            }
            () = self.stop.cancelled() => PipelineError::Interrupted,
        };
        Driver::discard_plan(workspace)?;
        Err(refusal)
    }

    /// Applies a plan while holding the lock of its EKS cluster: EKS rejects concurrent Fargate profile changes.
    async fn apply_plan(
        &self,
        key: &WorkspaceKey,
        cluster: Option<&str>,
        job: &StepContext<'_>,
        (plan, slot): (ApprovedPlan, HookGuard),
    ) -> Result<(), PipelineError> {
        let (cluster_lock, slot) = match cluster {
            Some(cluster) => {
                let mut lock = self.hooks.lock_cluster(key, cluster);
                match (&mut lock).now_or_never() {
                    Some(lock) => (Some(lock), slot),
                    None => {
                        // Other workspaces can plan while this one waits for the lock.
                        drop(slot);
                        let lock = self.unless_stopped(lock).await?;
                        (Some(lock), self.acquire_slot(key).await?)
                    }
                }
            }
            // Whoever has planned applies with the same slot, and does not wait for another one.
            None => (None, slot),
        };
        let outcome = self.data_dir.driver.apply(job, plan).await;
        drop((cluster_lock, slot));
        if outcome.is_err() && job.workspace.has_remote_state() {
            // Refresh the local copy of the remote state; a failure is harmless because the next run pulls again.
            let _read_later = self.data_dir.driver.pull_state(job).await;
        }
        Ok(outcome?)
    }
}

/// Number of managed objects in the state of a workspace.
pub(super) fn count_managed_objects(workspace: &WorkspaceDir) -> Result<usize, PipelineError> {
    Ok(workspace.state()?.map_or(0, |state| state.managed_objects().count()))
}
