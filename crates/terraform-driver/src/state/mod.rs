//! The state of a workspace: parsing, snapshots and recovery.

mod recovery;
mod snapshots;
mod state_file;

pub use recovery::{StateRecovery, StateRecoveryError, recover_state};
pub use snapshots::{SnapshotOutcome, StateSnapshots};
pub use state_file::{InvalidState, ManagedObject, State, StateInstance, StateResource, StateVersion};
