//! Runs: terraform commands that are started through a shim and followed through their run directories.

mod approved_plan;
mod command_output;
mod driver;
mod handle;
mod interrupted;
mod reattach;
pub mod run_dir;
mod steps;
mod unfinished;

pub use approved_plan::{ApprovedPlan, RefusedPlan};
pub use driver::{Driver, PhaseDeadlines, RunLimits, SavedPlan, StepContext, StepError, StepPhase};
pub use handle::{RunCompletion, RunError, RunHandle};
pub use interrupted::interrupted_taints;
pub use lease_deadline::RunLease;
pub use reattach::{
    ProviderMismatch, REATTACH_VARIABLE, ReattachFuture, ReattachLease, ReattachSource, with_provider_pid,
};
pub use steps::ConfigurationDigests;
pub use unfinished::unfinished_changes;
