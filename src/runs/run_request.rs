//! What a run is asked to do.

use std::sync::Arc;

use super::{keep::Keeper, lanes::Lane};
use crate::{
    api::RunOperation,
    aws::Principal,
    blueprint::Key,
    work::{Assignment, Goal},
};

/// A run to start.
pub struct Order {
    /// The workspace.
    pub key: Key,
    /// The object that it is for, which is told of it.
    pub object: Key,
    /// How urgent it is.
    pub lane: Lane,
    /// What is to be done.
    pub what: What,
    /// Digest of everything that it is made from.
    pub inputs_hash: String,
    /// Where the state is kept beside the directory.
    pub keeper: Arc<dyn Keeper>,
}

/// What is to be done with a workspace.
pub enum What {
    /// Make it what it should be, or look whether it is.
    Bring {
        /// Everything that goes into it.
        assignment: Box<Assignment>,
        /// How far to go.
        goal: Goal,
    },
    /// Destroy it, with what was sealed when it was applied.
    Destroy {
        /// As whom it is done; as the operator itself if as nobody else.
        principal: Option<Principal>,
        /// Whether it was applied, so that there must be a state somewhere.
        expected: bool,
    },
}

impl What {
    /// In the words of the status.
    pub const fn operation(&self) -> RunOperation {
        match self {
            Self::Bring { goal: Goal::Apply { .. } | Goal::Correct, .. } => RunOperation::Apply,
            Self::Bring { goal: Goal::Plan | Goal::Check, .. } => RunOperation::Check,
            Self::Destroy { .. } => RunOperation::Destroy,
        }
    }
}
