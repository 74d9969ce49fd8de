//! Runs the workspace pipeline for a command: resolves references from the manifests and implements the hooks with a
//! progress board.

use std::{collections::BTreeMap, sync::Arc};

use capt_model::{
    manifest::ValidatedManifests,
    workspaces::{
        AppliedOutputs, DesiredWorkspace, ProviderDefaults, ResolveError, ResolvedWorkspace, WorkspaceKey,
        desired_workspaces, resolve_references,
    },
};
use futures::future::BoxFuture;
use terraform_driver::{
    events::TerraformProgress, output::Outputs, plan::PlanSummary, run::StepPhase, workspace::WorkspaceDir,
};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::progress::{ProgressBoard, WorkspaceStage};
use crate::pipeline::{
    self, DataDirectory, DestroyReason, DestroyRequest, Goal, HookGuard, PipelineError, RunHooks,
    WorkspaceJob, WorkspaceOutcome, WorkspaceRecord,
};

/// Asks the user whether a plan may be applied.
pub trait ConfirmPlan: Send + Sync {
    /// Returns whether the plan may be applied.
    fn confirm<'a>(&'a self, key: &'a WorkspaceKey, summary: &'a PlanSummary) -> BoxFuture<'a, bool>;
}

/// Shared state of all tasks of a command.
pub struct OneShotPipeline<'a> {
    /// The data directory.
    pub data_dir: &'a DataDirectory,
    /// The manifests of the command.
    pub manifests: &'a ValidatedManifests,
    /// Workspaces by the connection Secret that they write.
    pub secret_producers: BTreeMap<String, WorkspaceKey>,
    /// Outputs of the workspaces that are applied so far.
    pub applied_outputs: Mutex<AppliedOutputs>,
    /// Progress for display.
    pub board: ProgressBoard,
    /// Cancelled to stop the command.
    pub stop: CancellationToken,
    /// Defaults of the provider block.
    pub provider_defaults: ProviderDefaults,
    /// Limits the concurrent terraform processes.
    pub slots: Arc<Semaphore>,
    /// One mutex per EKS cluster: EKS allows one change at a time.
    pub cluster_locks: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    /// Confirmation of plans.
    pub confirm: Box<dyn ConfirmPlan>,
}

impl OneShotPipeline<'_> {
    /// Resolves and runs one workspace up to `goal`.
    pub async fn run(
        &self,
        blueprint: &DesiredWorkspace,
        goal: &Goal,
    ) -> Result<WorkspaceOutcome, PipelineError> {
        let resolved = match self.resolve(blueprint).await {
            Ok(resolved) => resolved,
            Err(PipelineError::Resolve(reason @ ResolveError::NotApplied { .. }))
                if matches!(goal, Goal::Plan) =>
            {
                return Ok(WorkspaceOutcome::Deferred { reason: reason.to_string() });
            }
            Err(error) => return Err(error),
        };
        let assignment = WorkspaceJob::new(blueprint, resolved);
        let outcome = self.workspace_pipeline().run(&assignment, goal).await?;
        self.collect_outputs(&blueprint.key).await?;
        Ok(outcome)
    }

    /// Destroys one workspace with only the contents of its directory. `intent` is why it is destroyed.
    pub async fn destroy(
        &self,
        key: &WorkspaceKey,
        record: &WorkspaceRecord,
        intent: &DestroyReason,
    ) -> Result<WorkspaceOutcome, PipelineError> {
        let env = self.template_env(key, record).await?;
        let how = DestroyRequest { reason: intent, env: &env, principal: None };
        self.workspace_pipeline().destroy(key, record, &how).await
    }

    fn workspace_pipeline(&self) -> pipeline::WorkspacePipeline<'_> {
        pipeline::WorkspacePipeline { data_dir: self.data_dir, hooks: self, stop: &self.stop }
    }

    async fn resolve(&self, blueprint: &DesiredWorkspace) -> Result<ResolvedWorkspace, PipelineError> {
        let known = self.applied_outputs.lock().await;
        let mut resolved = resolve_references(
            blueprint,
            &known,
            self.manifests,
            &self.secret_producers,
            &self.provider_defaults,
        )?;
        match resolved.missing.pop() {
            Some(missing) => Err(missing.into()),
            None => Ok(resolved),
        }
    }

    /// Environment of the template for a destroy. It must match the apply: other credentials lead to another account, where
    /// terraform finds no resources and reports success.
    async fn template_env(
        &self,
        key: &WorkspaceKey,
        record: &WorkspaceRecord,
    ) -> Result<Vec<(String, String)>, PipelineError> {
        let all = desired_workspaces(self.manifests).unwrap_or_default();
        let env = match all.iter().find(|blueprint| blueprint.key == *key) {
            Some(blueprint) => self.resolve(blueprint).await.map(|resolved| resolved.env).unwrap_or_default(),
            None => Vec::new(),
        };
        match record.env.iter().find(|name| !env.iter().any(|(known, _)| known == *name)) {
            Some(name) => Err(PipelineError::MissingEnvironment { name: name.clone() }),
            None => Ok(env),
        }
    }

    /// Collects the outputs of a workspace for its dependents.
    async fn collect_outputs(&self, key: &WorkspaceKey) -> Result<(), PipelineError> {
        let place = self.data_dir.workspace_dir(key);
        let Some(record) = WorkspaceRecord::read(&place)? else { return Ok(()) };
        if let Some(bytes) = record.workspace_dir(&self.data_dir.path, key).state_bytes()? {
            let outputs = Outputs::from_state(&bytes)?;
            self.applied_outputs.lock().await.by_workspace.insert(key.clone(), outputs);
        }
        Ok(())
    }
}

impl RunHooks for OneShotPipeline<'_> {
    fn on_progress(&self, key: &WorkspaceKey, phase: StepPhase, progress: &TerraformProgress) {
        self.board.update_progress(key, phase, progress);
    }

    fn add_note(&self, key: &WorkspaceKey, text: &str) {
        self.board.add_note(key, text);
    }

    fn set_waiting_for(&self, key: &WorkspaceKey, what: Option<String>) {
        self.board.set_stage(
            key,
            what.map_or(WorkspaceStage::Running(StepPhase::Settling), |on| WorkspaceStage::Queued { on }),
        );
    }

    fn acquire_slot<'a>(&'a self, key: &'a WorkspaceKey) -> BoxFuture<'a, HookGuard> {
        Box::pin(async move {
            if self.slots.available_permits() == 0 {
                self.board.set_stage(key, WorkspaceStage::Queued { on: "a free slot".to_owned() });
            }
            // The semaphore is never closed.
            Box::new(Arc::clone(&self.slots).acquire_owned().await.ok()) as HookGuard
        })
    }

    fn lock_cluster<'a>(&'a self, key: &'a WorkspaceKey, cluster: &'a str) -> BoxFuture<'a, HookGuard> {
        Box::pin(async move {
            let lock = Arc::clone(self.cluster_locks.lock().await.entry(cluster.to_owned()).or_default());
            if let Ok(turn) = Arc::clone(&lock).try_lock_owned() {
                return Box::new(turn) as HookGuard;
            }
            self.board
                .set_stage(key, WorkspaceStage::Queued { on: format!("the lock of EKS cluster {cluster}") });
            Box::new(lock.lock_owned().await) as HookGuard
        })
    }

    fn confirm_plan<'a>(&'a self, key: &'a WorkspaceKey, summary: &'a PlanSummary) -> BoxFuture<'a, bool> {
        self.confirm.confirm(key, summary)
    }

    /// No-op: a command has no backup besides the directory.
    fn restore_state<'a>(
        &'a self,
        _: &'a WorkspaceKey,
        _: &'a WorkspaceDir,
    ) -> BoxFuture<'a, Result<(), PipelineError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// No-op: a command has no backup besides the directory.
    fn back_up_state<'a>(
        &'a self,
        _: &'a WorkspaceKey,
        _: &'a WorkspaceDir,
        _: &'a WorkspaceRecord,
    ) -> BoxFuture<'a, Result<(), PipelineError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
