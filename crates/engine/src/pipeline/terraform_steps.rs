//! The terraform commands of a run, as a trait: [`Driver`] executes them, unit tests of the pipeline replace it.

use futures::future::BoxFuture;
use terraform_driver::{
    command::PlanMode,
    engine::Engine,
    run::{ApprovedPlan, ConfigurationDigests, Driver, SavedPlan, StepContext, StepError},
    state::RecoveredState,
};

/// Result of a step, once it is done.
pub type StepFuture<'a, T> = BoxFuture<'a, Result<T, StepError>>;

/// The terraform commands of a run. Each method is documented at [`Driver`].
pub trait TerraformSteps: Send + Sync {
    /// The engine that runs the commands.
    fn engine(&self) -> &Engine;

    /// Sets after how many bytes of output a command is stopped.
    fn set_max_log(&mut self, _: u64) {}

    /// Waits for a command that a previous caller left running, then recovers the newest state.
    fn resume_and_recover<'a>(&'a self, job: &'a StepContext<'_>) -> StepFuture<'a, RecoveredState>;

    /// Runs `init`, unless the digest of its inputs is unchanged.
    fn init<'a>(&'a self, job: &'a StepContext<'_>, digests: &'a ConfigurationDigests) -> StepFuture<'a, ()>;

    /// Pulls a remote state into the workspace directory.
    fn pull_state<'a>(&'a self, job: &'a StepContext<'_>) -> StepFuture<'a, ()>;

    /// Creates a saved plan.
    fn plan<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        mode: PlanMode,
        digests: &'a ConfigurationDigests,
    ) -> StepFuture<'a, SavedPlan>;

    /// Adds the attribute changes to a plan's summary.
    fn load_attribute_changes<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        planned: &'a mut SavedPlan,
    ) -> StepFuture<'a, ()>;

    /// Applies the saved plan.
    fn apply<'a>(&'a self, job: &'a StepContext<'_>, plan: ApprovedPlan) -> StepFuture<'a, ()>;

    /// Untaints a resource.
    fn untaint<'a>(&'a self, job: &'a StepContext<'_>, address: &'a str) -> StepFuture<'a, ()>;

    /// Moves a resource of the state to another address.
    fn move_state_address<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        from: &'a str,
        to: &'a str,
    ) -> StepFuture<'a, ()>;

    /// Replaces the state, locally or in the backend.
    fn replace_state<'a>(&'a self, job: &'a StepContext<'_>, bytes: &'a [u8]) -> StepFuture<'a, ()>;

    /// Imports an existing resource into the state.
    fn import<'a>(&'a self, job: &'a StepContext<'_>, address: &'a str, id: &'a str) -> StepFuture<'a, ()>;
}

impl TerraformSteps for Driver {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn set_max_log(&mut self, bytes: u64) {
        self.limits.max_log = bytes;
    }

    fn resume_and_recover<'a>(&'a self, job: &'a StepContext<'_>) -> StepFuture<'a, RecoveredState> {
        Box::pin(Self::resume_and_recover(self, job))
    }

    fn init<'a>(&'a self, job: &'a StepContext<'_>, digests: &'a ConfigurationDigests) -> StepFuture<'a, ()> {
        Box::pin(Self::init(self, job, digests))
    }

    fn pull_state<'a>(&'a self, job: &'a StepContext<'_>) -> StepFuture<'a, ()> {
        Box::pin(Self::pull_state(self, job))
    }

    fn plan<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        mode: PlanMode,
        digests: &'a ConfigurationDigests,
    ) -> StepFuture<'a, SavedPlan> {
        Box::pin(Self::plan(self, job, mode, digests))
    }

    fn load_attribute_changes<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        planned: &'a mut SavedPlan,
    ) -> StepFuture<'a, ()> {
        Box::pin(Self::load_attribute_changes(self, job, planned))
    }

    fn apply<'a>(&'a self, job: &'a StepContext<'_>, plan: ApprovedPlan) -> StepFuture<'a, ()> {
        Box::pin(Self::apply(self, job, plan))
    }

    fn untaint<'a>(&'a self, job: &'a StepContext<'_>, address: &'a str) -> StepFuture<'a, ()> {
        Box::pin(Self::untaint(self, job, address))
    }

    fn move_state_address<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        from: &'a str,
        to: &'a str,
    ) -> StepFuture<'a, ()> {
        Box::pin(Self::move_state_address(self, job, from, to))
    }

    fn replace_state<'a>(&'a self, job: &'a StepContext<'_>, bytes: &'a [u8]) -> StepFuture<'a, ()> {
        Box::pin(Self::replace_state(self, job, bytes))
    }

    fn import<'a>(&'a self, job: &'a StepContext<'_>, address: &'a str, id: &'a str) -> StepFuture<'a, ()> {
        Box::pin(Self::import(self, job, address, id))
    }
}
