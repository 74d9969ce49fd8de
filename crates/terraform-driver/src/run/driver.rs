//! Types shared by the steps of a run: the driver, the context of a step, its phases and errors.

use std::time::Duration;

use lease_deadline::RunLease;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::{
    handle::RunError,
    reattach::{ProviderMismatch, ReattachSource},
    run_dir::StopReason,
};
use crate::{
    command::{ArgsError, PlanMode, UserArgs},
    engine::Engine,
    environment::Environment,
    events::{Diagnostic, TerraformProgress},
    exec::ShimProgram,
    plan::{PlanError, PlanSummary},
    planfile::PlanFileError,
    state::StateRecoveryError,
    workspace::{WorkspaceDir, WorkspaceError, files::FileError},
};

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StepPhase {
    /// Following a command that a previous caller left running.
    Resuming,
    /// Repairing the state: waiting for interrupted creates, `untaint`, `import`, `state mv`.
    Settling,
    /// `init`.
    Initialising,
    /// `plan`.
    Planning,
    /// `apply`.
    Applying,
    /// `apply` of a plan that destroys.
    Destroying,
}

/// Why a step failed.
#[derive(Debug, Error)]
pub enum StepError {
    /// Terraform stopped on request.
    #[error("interrupted during {phase}")]
    Interrupted {
        /// Phase of the run.
        phase: StepPhase,
    },
    /// Terraform was stopped because it was silent or exceeded its deadline.
    #[error("terraform was stopped during {phase}: {}", stop_reason_text(*reason))]
    Hung {
        /// Phase of the run.
        phase: StepPhase,
        /// Why it was stopped.
        reason: StopReason,
    },
    /// The operator does not hold its leader election Lease any more: terraform was stopped, or not started.
    #[error(
        "stopped during {phase}, because the operator has not renewed its leader election Lease in time; the leader continues"
    )]
    LeaseLost {
        /// Phase of the run.
        phase: StepPhase,
    },
    /// Terraform was killed by another process or the kernel.
    #[error("terraform was killed during {phase}; completed changes are in the state")]
    Killed {
        /// Phase of the run.
        phase: StepPhase,
    },
    /// Terraform exited with an error.
    #[error("terraform failed during {phase}")]
    Failed {
        /// Phase of the run.
        phase: StepPhase,
        /// Its error diagnostics.
        diagnostics: Vec<Diagnostic>,
        /// The last lines of its other output.
        tail: String,
    },
    /// The provider does not match the dependency lock file.
    #[error(transparent)]
    ProviderMismatch(#[from] ProviderMismatch),
    /// The saved plan cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// The output of `show` cannot be parsed.
    #[error(transparent)]
    Show(#[from] PlanError),
    /// The state cannot be recovered.
    #[error(transparent)]
    Recover(Box<StateRecoveryError>),
    /// The command could not be started or followed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An argument is not allowed.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The workspace directory is unusable.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<StateRecoveryError> for StepError {
    fn from(error: StateRecoveryError) -> Self {
        Self::Recover(Box::new(error))
    }
}

fn stop_reason_text(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Requested => "stop requested",
        StopReason::Silent => "no output within the silence limit",
        StopReason::Overdue => "deadline exceeded",
        StopReason::LeaseLost => "the leader election Lease was not renewed",
        StopReason::LogTooLarge => {
            "its output exceeded the limit; print less in provisioners and providers, or have the limit raised (--max-log-size)"
        }
    }
}

/// How long the commands of a run may take. One that takes longer is stopped, so that nobody holds a run slot for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseDeadlines {
    /// `init`.
    pub init: Duration,
    /// `plan`, and all other commands that change no resources.
    pub plan: Duration,
    /// `apply`; unlimited if `None`.
    pub apply: Option<Duration>,
}

impl Default for PhaseDeadlines {
    fn default() -> Self {
        Self { init: Duration::from_mins(15), plan: Duration::from_mins(15), apply: None }
    }
}

impl PhaseDeadlines {
    /// The deadline of a command.
    pub(super) fn of(&self, phase: StepPhase) -> Option<Duration> {
        match phase {
            StepPhase::Initialising => Some(self.init),
            StepPhase::Applying | StepPhase::Destroying => self.apply,
            StepPhase::Resuming | StepPhase::Settling | StepPhase::Planning => Some(self.plan),
        }
    }
}

/// Limits of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// Grace period between SIGINT and SIGKILL.
    pub grace: Duration,
    /// Maximum time without output during `apply`, whose heartbeat is ten seconds.
    pub silence: Duration,
    /// Deadlines of the commands.
    pub deadlines: PhaseDeadlines,
    /// How long to wait for the state lock.
    pub lock_timeout: Duration,
    /// Bytes that an apply reserves on the disk, in addition to three times the size of the state.
    pub disk_reserve: u64,
    /// Bytes of output after which a command is stopped.
    pub max_log: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(10),
            silence: Duration::from_secs(90),
            deadlines: PhaseDeadlines::default(),
            lock_timeout: Duration::from_mins(1),
            disk_reserve: 8 << 20,
            max_log: 64 << 20,
        }
    }
}

/// Context of a step: the workspace, its environment and the callbacks.
pub struct StepContext<'a> {
    /// The workspace directory.
    pub workspace: &'a WorkspaceDir,
    /// Environment of its commands.
    pub environment: &'a Environment,
    /// Extra arguments of its template.
    pub args: &'a UserArgs,
    /// Called with the progress of the current command.
    pub on_progress: &'a (dyn Fn(StepPhase, &TerraformProgress) + Send + Sync),
    /// Cancelled to stop the run.
    pub stop: &'a CancellationToken,
    /// Source of running providers; `None` if terraform starts its own.
    pub reattach: Option<&'a dyn ReattachSource>,
    /// The leadership without which nothing may be changed; `None` without leader election.
    pub lease: Option<&'a RunLease>,
}

/// A saved plan.
#[derive(Debug)]
pub struct SavedPlan {
    /// Summary of the changes.
    pub summary: PlanSummary,
    /// Mode of the plan.
    pub mode: PlanMode,
    /// Whether there is anything to apply, including output changes.
    pub has_changes: bool,
}

/// Runs terraform commands.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Terraform or tofu.
    pub engine: Engine,
    /// How to start the shim.
    pub shim: ShimProgram,
    /// Time limits.
    pub limits: RunLimits,
}
