//! Replay: what the journal has and a state lacks is written into the state. Pure: entries and a state in, a state out.
//!
//! The journal knows no addresses, because terraform does not send any. A creation is assigned to an address by the value that
//! was planned for it: a plan of the same configuration on the repaired state plans that value again, at the address that
//! lacks it.

mod address;
mod assignment;
mod contained;
mod recorded;
mod state_document;
mod value;

#[cfg(test)]
mod tests;

pub use address::InstanceAddress;
pub use assignment::{Assignment, PlannedCreate, assign};
pub use contained::contained_calls;
pub use recorded::{ChangeOutcome, RecordedChange, Replay, recorded_changes, replay_known};
pub use state_document::{NewObject, ObjectInState, StateDocument};
pub use value::ResourceValue;
