//! The state of a workspace: what it says, the snapshots that guard it, and how it comes back.

mod file;
mod recover;
mod snapshots;

pub use file::{Instance, NotAState, Object, Resource, State, Version};
pub use recover::{RecoverError, Recovered, recover};
pub use snapshots::{Offer, Snapshots};
