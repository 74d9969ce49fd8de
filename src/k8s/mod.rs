//! The API server: the only writer to it, and the only place that knows how its refusals are to be read.
//!
//! Nothing is decided here. Callers say what is to be; this module says it to the server so that nothing hangs, nothing is
//! written that is there already, and no write of somebody else is lost.
//!
//! | file | does |
//! |---|---|
//! | `call` | deadline, counters and retries of every call; reads |
//! | `detour` | a client whose way can be replaced |
//! | `client` | the way to a cluster; kinds that must be there |
//! | `objects` | apply, create, replace, delete |
//! | `dynamic` | objects of kinds known only at run time; merge patches |
//! | `rehearsal` | what a patch would give, without giving it |
//! | `metadata` | finalizers, annotations, owners |
//! | `status`, `conditions` | what objects say about themselves |
//! | `events` | what happened, told once |
//! | `secrets` | connection Secrets, kubeconfigs |
//! | `vault` | the state of a workspace, in Secrets |
//! | `leader` | one leader, by Lease |
//! | `references` | who may refer to whom |

mod call;
pub mod client;
pub mod conditions;
mod detour;
mod dynamic;
mod error;
pub mod events;
pub mod leader;
mod metadata;
mod objects;
pub mod references;
mod rehearsal;
pub mod secrets;
pub mod status;
mod text;
pub mod vault;

pub use self::{
    call::{DEADLINE, Kube, Outcome, Tally},
    client::{Where, connect, connect_by_token},
    detour::Way,
    error::{Deed, K8sError},
    events::{Events, News},
    leader::{Candidate, Ended, Fence, lead},
    objects::{Deleted, Removal},
    rehearsal::Meaning,
    status::Written,
};

#[cfg(test)]
mod tests;
