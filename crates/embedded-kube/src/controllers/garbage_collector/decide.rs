//! Decides what happens to an object, given the state of its owners. No I/O.

use super::{
    dependency_graph::NodeSnapshot,
    ownership::{ObjectOwnership, OwnerRef},
};
use crate::controllers::api_client::Propagation;

/// State of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// It exists and does not wait for its dependents to be deleted.
    Solid,
    /// It does not exist.
    Dangling,
    /// It is in foreground deletion: it exists until its dependents are gone.
    WaitingForDependents,
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GcDecision {
    /// Nothing.
    Keep,
    /// Remove these owner references: another owner keeps the object.
    RemoveOwners(Vec<String>),
    /// Delete the object.
    Delete {
        /// Propagation policy.
        propagation: Propagation,
        /// First clear `blockOwnerDeletion`: owners may wait for each other in a cycle.
        unblock: bool,
    },
}

/// Decides what happens to an object.
pub fn decide(
    latest: &ObjectOwnership,
    item: &NodeSnapshot,
    owners: &[(OwnerRef, OwnerState)],
) -> GcDecision {
    if owners.is_empty() {
        return GcDecision::Keep;
    }
    let having = |standing: OwnerState| owners.iter().filter(move |(_, one)| *one == standing);
    if having(OwnerState::Solid).next().is_some() {
        let gone = having(OwnerState::Dangling).chain(having(OwnerState::WaitingForDependents));
        let gone: Vec<String> = gone.map(|(owner, _)| owner.uid.clone()).collect();
        return if gone.is_empty() { GcDecision::Keep } else { GcDecision::RemoveOwners(gone) };
    }
    if having(OwnerState::WaitingForDependents).next().is_some() && !item.dependents.is_empty() {
        let unblock = item.dependents.iter().any(|dependent| dependent.is_foreground);
        return GcDecision::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = if latest.has_orphan_finalizer {
        Propagation::Orphan
    } else if latest.has_foreground_finalizer {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    GcDecision::Delete { propagation, unblock: false }
}
