//! The request that starts a run.

use std::sync::Arc;

use capt_kinds::api::RunOperation;
use capt_model::workspaces::WorkspaceKey;

use super::{scheduler::RunPriority, state_backup::BackupStore};
use crate::{
    aws::Principal,
    pipeline::{Goal, WorkspaceJob},
};

/// Everything that is needed to start a run.
pub struct RunRequest {
    /// Key of the workspace.
    pub key: WorkspaceKey,
    /// Key of the owning object, which is reconciled when the run changes.
    pub object: WorkspaceKey,
    /// Scheduling priority.
    pub priority: RunPriority,
    /// What the run does.
    pub kind: RunKind,
    /// Hash of all inputs.
    pub inputs_hash: String,
    /// Where the state is backed up.
    pub backup_store: Arc<dyn BackupStore>,
}

/// What a run does with its workspace.
pub enum RunKind {
    /// Apply the configuration, or check for drift.
    Converge {
        /// Resolved configuration, variables and credentials.
        job: Box<WorkspaceJob>,
        /// Whether to plan, check, apply or correct drift.
        goal: Goal,
    },
    /// Destroy the resources with the bundle that was sealed at the last apply.
    Destroy {
        /// AWS principal; the operator's own credentials if none.
        principal: Option<Principal>,
        /// Whether the workspace was applied, so that a missing state is an error.
        expects_state: bool,
    },
}

impl RunKind {
    /// The operation as the status reports it.
    pub const fn operation(&self) -> RunOperation {
        match self {
            Self::Converge { goal: Goal::Apply { .. } | Goal::CorrectDrift, .. } => RunOperation::Apply,
            Self::Converge { goal: Goal::Plan | Goal::DetectDrift, .. } => RunOperation::Check,
            Self::Destroy { .. } => RunOperation::Destroy,
        }
    }
}
