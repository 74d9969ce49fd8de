//! Hooks through which the operator and the command line adapt the pipeline: scheduling, progress, confirmation, backup.

use capt_model::workspaces::WorkspaceKey;
use futures::future::BoxFuture;
use terraform_driver::{
    events::TerraformProgress, plan::PlanSummary, run::StepPhase, workspace::WorkspaceDir,
};

use super::{error::PipelineError, workspace_record::WorkspaceRecord};

/// Releases a slot or a cluster lock when dropped.
pub type HookGuard = Box<dyn Send>;

/// Callbacks of the pipeline.
pub trait RunHooks: Send + Sync {
    /// Reports the progress of the current terraform command.
    fn on_progress(&self, key: &WorkspaceKey, phase: StepPhase, progress: &TerraformProgress);

    /// Records a note for the user.
    fn add_note(&self, key: &WorkspaceKey, text: &str);

    /// Reports what the run waits for; `None` when it goes on.
    fn set_waiting_for(&self, key: &WorkspaceKey, what: Option<String>);

    /// Reports that a command runs without the provider gateway, which makes it slower.
    fn on_gateway_bypass(&self, key: &WorkspaceKey, why: &str) {
        self.add_note(key, why);
    }

    /// Waits for one of the slots that limit concurrent terraform processes.
    fn acquire_slot<'a>(&'a self, key: &'a WorkspaceKey) -> BoxFuture<'a, HookGuard>;

    /// Waits for the lock of an EKS cluster; EKS allows one change at a time.
    fn lock_cluster<'a>(&'a self, key: &'a WorkspaceKey, cluster: &'a str) -> BoxFuture<'a, HookGuard>;

    /// Asks whether a plan may be applied.
    fn confirm_plan<'a>(&'a self, key: &'a WorkspaceKey, summary: &'a PlanSummary) -> BoxFuture<'a, bool>;

    /// Restores the workspace directory from the backup if its state is missing. Called before anything is read.
    fn restore_state<'a>(
        &'a self,
        key: &'a WorkspaceKey,
        workspace: &'a WorkspaceDir,
    ) -> BoxFuture<'a, Result<(), PipelineError>>;

    /// Backs up the state and the destroy bundle. Called before each apply and after it.
    fn back_up_state<'a>(
        &'a self,
        key: &'a WorkspaceKey,
        workspace: &'a WorkspaceDir,
        record: &'a WorkspaceRecord,
    ) -> BoxFuture<'a, Result<(), PipelineError>>;

    /// Whether the gateway's journal entries of this run are copied elsewhere before its changes go on.
    fn replicates_journal(&self) -> bool {
        false
    }

    /// Copies every version of the state, and every journal entry, elsewhere from now on until the run ends. Called before terraform changes anything, and
    /// when a terraform of an earlier run is still at work.
    fn replicate<'a>(&'a self, _: &'a WorkspaceKey, _: &'a WorkspaceDir) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
