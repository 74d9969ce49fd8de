//! Reads the routes of a group from the route snapshot. Read only, decides nothing.

use capt_kinds::sandbox::RouteGroup;
use sandbox::routes::{OwnerRoutes, RouteOwner};

use crate::sandbox_common::route_snapshot::RouteSnapshot;

/// The route snapshot, and what it has of one group.
pub(super) struct GroupRoutes<'a> {
    /// The whole snapshot.
    pub(super) snapshot: &'a RouteSnapshot,
    /// The group in it.
    pub(super) owner: RouteOwner,
    /// Its routes.
    pub(super) own: OwnerRoutes,
    /// The snapshot does not include the current spec.
    pub(super) is_late: bool,
}

/// Finds the group in the snapshot.
pub(super) fn dereference<'a>(group: &RouteGroup, snapshot: &'a RouteSnapshot) -> GroupRoutes<'a> {
    let owner = RouteOwner::group(group);
    let own = snapshot.routes.owners.get(&owner).cloned().unwrap_or_default();
    let is_late = snapshot.generations.get(&owner).copied() < group.metadata.generation;
    GroupRoutes { snapshot, owner, own, is_late }
}
