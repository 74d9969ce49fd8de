//! The state of a workspace: parsing, snapshots and recovery.

mod evidence;
mod kept_states;
mod recovery;
mod snapshots;
mod state_file;

pub(crate) use evidence::record_applied_objects;
pub use kept_states::{KeptPlace, KeptState, ReplaceStateError, list_kept_states, replace_state_file};
pub use recovery::{RecoveredState, StateRecovery, StateRecoveryError, recover_state};
pub use snapshots::{SnapshotOutcome, StateSnapshots};
pub use state_file::{
    InvalidState, ManagedObject, State, StateInstance, StateResource, StateVersion, with_serial,
};
