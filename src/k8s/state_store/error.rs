//! Why a state was not saved, or cannot be had.

use terraform_driver::state::NotAState;
use thiserror::Error;

use super::super::{error::K8sError, leader::Fence};
use crate::error::Class;

/// Why a state was not saved, or cannot be had.
#[derive(Debug, Error, strum::IntoStaticStr)]
#[non_exhaustive]
pub enum VaultError {
    /// The API server.
    #[error(transparent)]
    Api(#[from] K8sError),
    /// What was offered is not a whole state.
    #[error("what is to be saved for {workspace} is not a state; the one that was saved before is kept")]
    NotAState {
        /// Namespace and name.
        workspace: String,
        /// Why.
        #[source]
        source: NotAState,
    },
    /// The offered state has nothing to do with the one that is kept, which still holds resources.
    #[error(
        "the state of {workspace} is of another history ({offered}) than the one that is kept ({kept}), which still \
         holds resources; destroy those first, or remove the kept state"
    )]
    OtherLineage {
        /// Namespace and name.
        workspace: String,
        /// Lineage of the state that is kept.
        kept: String,
        /// Lineage of the state that was offered.
        offered: String,
    },
    /// A later leader has taken over.
    #[error(
        "the state of {workspace} belongs to a later leader ({theirs} after our {ours}); this process must end"
    )]
    Fenced {
        /// Namespace and name.
        workspace: String,
        /// Our number.
        ours: Fence,
        /// The number that was seen.
        theirs: Fence,
    },
    /// Neither copy is whole.
    #[error(
        "the saved {part} of {workspace} is damaged; restore the Secrets with the label {label} from a backup"
    )]
    Damaged {
        /// Namespace and name.
        workspace: String,
        /// `state`, `bundle` or `commit`.
        part: &'static str,
        /// The label of its Secrets.
        label: String,
    },
    /// There are pages, but nothing tells which of them are true.
    #[error("the state of {workspace} has pages but no Secret {commit}; restore it from a backup")]
    Headless {
        /// Namespace and name.
        workspace: String,
        /// The Secret that is missing.
        commit: String,
    },
    /// It has grown, and nothing can be made in a namespace that is being deleted.
    #[error(
        "the {part} of {workspace} needs {needed} Secrets and has {there}, and its namespace is being deleted: none can be \
         made there any more. The copy in the working directory is the only new one; do not remove it"
    )]
    NoRoom {
        /// Namespace and name.
        workspace: String,
        /// `state` or `bundle`.
        part: &'static str,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        there: usize,
        /// What the server said.
        #[source]
        source: K8sError,
    },
}

impl VaultError {
    /// When it makes sense to try again.
    pub fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::NotAState { .. }
            | Self::OtherLineage { .. }
            | Self::Fenced { .. }
            | Self::Damaged { .. }
            | Self::Headless { .. }
            | Self::NoRoom { .. } => Class::Terminal,
        }
    }

    /// One word for metrics, reasons and events.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api(error) => error.category(),
            other => other.into(),
        }
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(error) if error.is_conflict())
    }
}
