//! Why a workspace is not as it should be.

use terraform_driver::{
    classify::{self, Failure},
    output::OutputError,
    plan::Reason,
    render::RenderError,
    run::StepError,
    workspace::{LockError, WorkspaceError, files::FileError},
};
use thiserror::Error;

use super::{fetch::FetchError, repair::RepairError, site::SiteError};
use crate::blueprint::ResolveError;

/// Why a workspace is not as it should be.
#[derive(Debug, Error)]
pub enum WorkError {
    /// Terraform or AWS said no.
    #[error("{}", said(.0))]
    Failed(Failure),
    /// We were asked to stop.
    #[error("interrupted; the same command continues")]
    Interrupted,
    /// The plan would harm what is protected.
    #[error("{}; if that is meant: --approve {hash}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Blocked {
        /// What it would do.
        reasons: Vec<Reason>,
        /// The plan's hash.
        hash: String,
    },
    /// A person said no.
    #[error("not confirmed; nothing was changed")]
    NotConfirmed,
    /// It would be looked for where it is not.
    #[error(
        "it holds resources in {from} and would now be in {to}; they would be made a second time. Destroy it first, \
         or set the {what} back"
    )]
    Moved {
        /// `region`, `root directory` or `backend`.
        what: &'static str,
        /// Where they are.
        from: String,
        /// Where they would be looked for.
        to: String,
    },
    /// A destroy without what the apply had.
    #[error(
        "its template set {name} in the environment, and the files do not say it any more; add the template's file"
    )]
    NoEnvironment {
        /// The variable.
        name: String,
    },
    /// Something still exists after a destroy.
    #[error("{left} resource(s) are still in the state after the destroy; run the same command again")]
    NotEmpty {
        /// How many.
        left: usize,
    },
    /// It was applied, and nothing tells what was made.
    #[error(
        "its state is neither in its directory nor among the kept states, so nobody can tell what is still there; \
         bring the state back, or set retainWorkspaceOnDelete to give its resources up"
    )]
    StateLost,
    /// What is kept elsewhere could not be reached.
    #[error("cannot {doing}")]
    Keeping {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A value is missing.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Its source cannot be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Another step of the driver.
    #[error(transparent)]
    Step(StepError),
    /// What was interrupted cannot be looked at.
    #[error(transparent)]
    Repair(#[from] RepairError),
    /// The environment of its commands.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// Its outputs make no sense.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Another process works on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its directory.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
}

fn said(failure: &Failure) -> String {
    let address = failure.address.as_ref().map(|address| format!("{address}: ")).unwrap_or_default();
    format!("{address}{}", failure.message)
}

impl From<StepError> for WorkError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Interrupted { .. } => Self::Interrupted,
            StepError::Failed { ref diagnostics, ref tail, .. } => {
                let failure = classify::primary(diagnostics).unwrap_or_else(|| classify::classify_text(tail));
                Self::Failed(failure)
            }
            other => Self::Step(other),
        }
    }
}
