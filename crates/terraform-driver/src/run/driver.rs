//! What the steps of a run work with: the engine, a workspace, and whoever listens.

use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::{
    handle::RunError,
    lend::{Lender, Refused},
    record::StopReason,
};
use crate::{
    command::{ArgsError, PlanMode, UserArgs},
    engine::Engine,
    environment::Environment,
    events::{Diagnostic, Progress},
    exec::ShimProgram,
    plan::{PlanError, Summary},
    planfile::PlanFileError,
    state::RecoverError,
    workspace::{Workspace, WorkspaceError, files::FileError},
};

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Phase {
    /// Following a command that an earlier caller left running.
    Resuming,
    /// Waiting for objects whose creation was interrupted.
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

/// Why a step did not end well.
#[derive(Debug, Error)]
pub enum StepError {
    /// We were asked to stop, and terraform did.
    #[error("interrupted during {phase}")]
    Interrupted {
        /// During what.
        phase: Phase,
    },
    /// It made no sound, or took too long, and was stopped.
    #[error("terraform was stopped during {phase}: {}", hung(*reason))]
    Hung {
        /// During what.
        phase: Phase,
        /// Which of the two.
        reason: StopReason,
    },
    /// It was killed by somebody else.
    #[error("terraform was killed during {phase}; what it had finished is in the state")]
    Killed {
        /// During what.
        phase: Phase,
    },
    /// Terraform said no.
    #[error("terraform failed during {phase}")]
    Failed {
        /// During what.
        phase: Phase,
        /// What it said.
        diagnostics: Vec<Diagnostic>,
        /// What else it printed, the end of it.
        tail: String,
    },
    /// The provider is not the one that was locked.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The saved plan cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// What `show` printed cannot be read.
    #[error(transparent)]
    Show(#[from] PlanError),
    /// The state cannot be brought back.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The command could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An argument that must not be.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The workspace's directory.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn hung(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Requested => "it was asked to",
        StopReason::Silent => "it gave no sign of life for too long",
        StopReason::Overdue => "it took longer than its limit",
    }
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the SIGINT to the kill.
    pub grace: Duration,
    /// Without a word during `apply`, whose heartbeat is ten seconds.
    pub silence: Duration,
    /// For everything but `apply`.
    pub deadline: Duration,
    /// For somebody else's lock on the state.
    pub lock_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(10),
            silence: Duration::from_secs(90),
            deadline: Duration::from_mins(15),
            lock_timeout: Duration::from_mins(1),
        }
    }
}

/// One workspace to work on, and who listens.
pub struct Job<'a> {
    /// The directory.
    pub workspace: &'a Workspace,
    /// The environment of its commands.
    pub environment: &'a Environment,
    /// What its template adds to them.
    pub args: &'a UserArgs,
    /// Hears how far it is.
    pub hear: &'a (dyn Fn(Phase, &Progress) + Send + Sync),
    /// Cancelled when it should stop.
    pub stop: &'a CancellationToken,
    /// Who lends running providers to its commands; terraform starts its own if nobody does.
    pub lender: Option<&'a dyn Lender>,
}

/// A plan that was made and saved.
#[derive(Debug)]
pub struct Planned {
    /// What it would do.
    pub summary: Summary,
    /// What it was made for.
    pub mode: PlanMode,
    /// Whether there is anything to apply, be it only an output.
    pub has_work: bool,
}

/// Runs terraform's commands.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Terraform or tofu.
    pub engine: Engine,
    /// Our own binary.
    pub shim: ShimProgram,
    /// How long things may take.
    pub limits: Limits,
}
