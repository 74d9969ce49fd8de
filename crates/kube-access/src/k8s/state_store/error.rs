//! Errors of saving and loading states.

use terraform_driver::state::InvalidState;
use thiserror::Error;

use super::super::{error::K8sError, leader::FencingToken};
use crate::error::ErrorClass;

/// Why a state could not be saved or loaded.
#[derive(Debug, Error, strum::IntoStaticStr)]
#[non_exhaustive]
pub enum StateStoreError {
    /// An API call failed.
    #[error(transparent)]
    Api(#[from] K8sError),
    /// The bytes to save are not a state file.
    #[error(
        "the state file of {workspace} is not a valid Terraform state; the previously saved state is kept"
    )]
    NotAState {
        /// Namespace and name.
        workspace: String,
        /// The parse error.
        #[source]
        source: InvalidState,
    },
    /// The lineage differs from the stored state, which still manages resources.
    #[error(
        "the state of {workspace} has lineage {offered}, but the stored state has lineage {kept} and still manages \
        resources; destroy those first, or choose one of both: `capt state versions` lists the stored ones, `capt state \
        restore` and `capt state push --force` decide"
    )]
    OtherLineage {
        /// Namespace and name.
        workspace: String,
        /// Lineage of the stored state.
        kept: String,
        /// Lineage of the new state.
        offered: String,
    },
    /// The stored state has the same lineage and serial, and other contents.
    #[error(
        "the state store holds another version of {workspace} with serial {serial} and lineage {lineage} than the workspace's \
        directory: two histories. Compare both with the cloud; to keep the stored one, run `capt state restore`, to keep the \
        other one, `capt state push` with its file"
    )]
    Forked {
        /// Namespace and name.
        workspace: String,
        /// Lineage of both.
        lineage: String,
        /// Serial of both.
        serial: u64,
    },
    /// A person has replaced the stored state.
    #[error(
        "the stored state of {workspace} was replaced with `capt state` while this run was active; what the run changed is in the \
        workspace's directory only, and the next run compares both"
    )]
    ReplacedByHand {
        /// Namespace and name.
        workspace: String,
    },
    /// The stored state changed between reading and replacing it.
    #[error(
        "the stored state of {workspace} changed in the meantime; nothing was replaced, look at it again"
    )]
    Changed {
        /// Namespace and name.
        workspace: String,
    },
    /// A newer leader has taken over.
    #[error(
        "the state of {workspace} was written by a newer leader (fencing token {theirs}, ours is {ours}); this process must exit"
    )]
    Fenced {
        /// Namespace and name.
        workspace: String,
        /// The fencing token of this process.
        ours: FencingToken,
        /// The stored fencing token.
        theirs: FencingToken,
    },
    /// Both copies are damaged.
    #[error(
        "the stored {part} of {workspace} is damaged; restore the Secrets with the label {label} from a backup"
    )]
    Damaged {
        /// Namespace and name.
        workspace: String,
        /// `state`, `bundle`, `commit` or `journal`.
        part: &'static str,
        /// The label of its Secrets.
        label: String,
    },
    /// Pages exist, but the commit that selects the current copy is missing.
    #[error("the state of {workspace} has pages but no Secret {commit}; restore it from a backup")]
    Headless {
        /// Namespace and name.
        workspace: String,
        /// The missing Secret.
        commit: String,
    },
    /// Somebody else has written the journal since it was read.
    #[error("the journal of {workspace} was changed by another writer; it has to be read again")]
    JournalChanged {
        /// Namespace and name.
        workspace: String,
    },
    /// The journal does not fit into a Secret.
    #[error(
        "the journal of {workspace} does not fit into a Secret ({bytes} bytes); its entries are on the disk only until the state \
        contains their changes"
    )]
    JournalTooLarge {
        /// Namespace and name.
        workspace: String,
        /// Compressed size.
        bytes: usize,
    },
    /// The state has grown, but Secrets cannot be created in a terminating namespace.
    #[error(
        "the {part} of {workspace} needs {needed} Secrets but has {there}, and none can be created because its namespace is \
        being deleted; the copy in the working directory is the only current one, do not delete it"
    )]
    NoRoom {
        /// Namespace and name.
        workspace: String,
        /// `state` or `bundle`.
        part: &'static str,
        /// Number of Secrets needed.
        needed: usize,
        /// Number of existing Secrets.
        there: usize,
        /// The server's response.
        #[source]
        source: K8sError,
    },
}

impl StateStoreError {
    /// The retry class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Api(error) => error.class(),
            Self::JournalChanged { .. } => ErrorClass::Conflict,
            Self::NotAState { .. }
            | Self::OtherLineage { .. }
            | Self::Forked { .. }
            | Self::ReplacedByHand { .. }
            | Self::Changed { .. }
            | Self::Fenced { .. }
            | Self::Damaged { .. }
            | Self::Headless { .. }
            | Self::JournalTooLarge { .. }
            | Self::NoRoom { .. } => ErrorClass::Terminal,
        }
    }

    /// The variant name, for metrics, reasons and events.
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
