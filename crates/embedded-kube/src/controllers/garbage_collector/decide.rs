//! What becomes of an object, given what its owners are found to be. No I/O.

use super::{
    facts::{Facts, OwnerRef},
    graph::Item,
};
use crate::controllers::api::Propagation;

/// What an owner is found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It exists, and does not wait for its dependents to go.
    Solid,
    /// It does not exist.
    Dangling,
    /// It exists until its dependents are gone.
    Waiting,
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// These references go, the object stays: another owner holds it.
    Trim(Vec<String>),
    /// It goes.
    Delete {
        /// How.
        propagation: Propagation,
        /// First stop it from blocking its owners: they may wait for each other in a circle.
        unblock: bool,
    },
}

/// See the module.
pub fn decide(latest: &Facts, item: &Item, owners: &[(OwnerRef, Standing)]) -> Decision {
    if owners.is_empty() {
        return Decision::Keep;
    }
    let having = |standing: Standing| owners.iter().filter(move |(_, one)| *one == standing);
    if having(Standing::Solid).next().is_some() {
        let gone = having(Standing::Dangling).chain(having(Standing::Waiting));
        let gone: Vec<String> = gone.map(|(owner, _)| owner.uid.clone()).collect();
        return if gone.is_empty() { Decision::Keep } else { Decision::Trim(gone) };
    }
    if having(Standing::Waiting).next().is_some() && !item.dependents.is_empty() {
        let unblock = item.dependents.iter().any(|dependent| dependent.is_foreground);
        return Decision::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = if latest.has_orphan_finalizer {
        Propagation::Orphan
    } else if latest.has_foreground_finalizer {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Decision::Delete { propagation, unblock: false }
}
