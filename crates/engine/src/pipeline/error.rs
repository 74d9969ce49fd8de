//! Errors of the pipeline. The operator puts their text into `status`, so only [`PipelineError::Interrupted`],
//! [`PipelineError::Blocked`] and [`PipelineError::NotConfirmed`], which it reports otherwise, may give command-line advice.

use std::path::PathBuf;

use capt_model::workspaces::ResolveError;
use capt_util::byte_size::ByteSize;
use provider_gateway::admin::GatewayClientError;
use terraform_driver::{
    classify::{self, TerraformFailure},
    output::OutputError,
    plan::GuardReason,
    render::RenderError,
    run::StepError,
    workspace::{LockError, WorkspaceError, files::FileError},
};
use thiserror::Error;

use super::{data_directory::DataDirectoryError, fetch::ModuleFetchError, untaint::InterruptedResourceError};

/// Why a run of the pipeline failed.
#[derive(Debug, Error)]
pub enum PipelineError {
    /// Terraform or AWS returned an error.
    #[error("{}", failure_message(.0))]
    Failed(TerraformFailure),
    /// A stop was requested.
    #[error("interrupted; run the same command again to continue")]
    Interrupted,
    /// The plan would destroy or replace protected resources and is not approved.
    #[error("{}; to allow it, pass --approve {hash}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Blocked {
        /// What the plan would do.
        reasons: Vec<GuardReason>,
        /// The plan's hash.
        hash: String,
    },
    /// The user declined the plan.
    #[error("not confirmed; nothing was changed")]
    NotConfirmed,
    /// The existing resources are in another region, root directory or backend than the new configuration.
    #[error(
        "the workspace holds resources in {from}, but is now configured for {to}, where they would be created again; \
         destroy the workspace first, or restore its {what}"
    )]
    LocationChanged {
        /// `region`, `root directory` or `backend`.
        what: &'static str,
        /// Current location.
        from: String,
        /// Location in the new configuration.
        to: String,
    },
    /// A destroy lacks an environment variable that the apply had.
    #[error(
        "the template set the environment variable {name}, which is no longer available; restore the template"
    )]
    MissingEnvironment {
        /// The variable.
        name: String,
    },
    /// Something of the workspace exceeds its limit.
    #[error("{what} has {size}, more than {limit}; {remedy}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: ByteSize,
        /// The limit.
        limit: ByteSize,
        /// What to do.
        remedy: &'static str,
    },
    /// The state is not empty after a destroy.
    #[error("{left} resource(s) remain in the state after the destroy; retry the destroy")]
    ResourcesRemain {
        /// Number of remaining resources.
        left: usize,
    },
    /// The workspace was applied, and its state is missing.
    #[error(
        "the state is neither in the workspace directory nor in a backup, so remaining resources are unknown; \
         restore the state, or set retainWorkspaceOnDelete to abandon the resources"
    )]
    StateLost,
    /// The state file does not parse.
    #[error("cannot read the state in {}", path.display())]
    StateUnreadable {
        /// The state file.
        path: PathBuf,
    },
    /// The edited state cannot be written.
    #[error("cannot write the state")]
    StateUnwritable(#[from] serde_json::Error),
    /// The gateway cannot be asked for changes in flight.
    #[error("cannot ask the provider gateway which calls are in flight")]
    Gateway(#[from] GatewayClientError),
    /// An object was created by a run that was killed, and its address is not certain.
    #[error(
        "{object} was created by an earlier run that was killed, and its address in the configuration is not certain, so nothing was planned; import it into the state, or delete it, and then have the workspace's journal entries dropped"
    )]
    CreatedObjectUnplaced {
        /// Type and id.
        object: String,
    },
    /// It is not known whether an object was created.
    #[error(
        "an earlier run was killed while it created {address} ({object}), and whether that object exists cannot be determined{candidates}; nothing was planned; import it into the state, or make sure that it does not exist, and then have the workspace's journal entries dropped"
    )]
    OutcomeUnknown {
        /// Type and name.
        object: String,
        /// Its address.
        address: String,
        /// Objects that it may be.
        candidates: String,
    },
    /// Another object owns the workspace.
    #[error("the workspace is owned by {owner}; only deleting that object destroys its resources")]
    OwnedByOther {
        /// The owner.
        owner: String,
    },
    /// The state backup could not be read or written.
    #[error("cannot {doing}")]
    StateBackup {
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A referenced value is missing.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The configuration cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The module source cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] ModuleFetchError),
    /// Any other error of a driver step.
    #[error(transparent)]
    Step(StepError),
    /// A resource whose creation was interrupted cannot be inspected.
    #[error(transparent)]
    InterruptedResource(#[from] InterruptedResourceError),
    /// The data directory or the environment of the commands is unusable.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The outputs cannot be parsed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Another process holds the workspace lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The workspace directory is unusable.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn failure_message(failure: &TerraformFailure) -> String {
    let address = failure.address.as_ref().map(|address| format!("{address}: ")).unwrap_or_default();
    format!("{address}{}", failure.message)
}

impl From<StepError> for PipelineError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Interrupted { .. } => Self::Interrupted,
            StepError::Failed { ref diagnostics, ref tail, .. } => {
                let failure =
                    classify::primary_failure(diagnostics).unwrap_or_else(|| classify::classify_text(tail));
                Self::Failed(failure)
            }
            other => Self::Step(other),
        }
    }
}
