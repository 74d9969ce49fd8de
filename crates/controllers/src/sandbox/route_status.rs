//! Whether the routers, or a mesh, have the routes of a Sandbox.

use std::{collections::BTreeMap, sync::Arc};

use capt_kinds::sandbox::{
    ForkStatus, Sandbox,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::find;
use kube::ResourceExt as _;
use sandbox::{
    condition::{ConditionStatus, ConditionUpdate},
    routes::{OwnerKind, OwnerRoutes, RouteOwner, programming_status},
};

use super::{
    context::{Context, SandboxObjectRef, current_routing_key, object_ref},
    key_conflict,
    status::endpoint_statuses,
};
use crate::sandbox_common::route_snapshot::RouteSnapshot;

/// The condition and the stored state of the routes of a Sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouteStatus {
    /// The condition `RoutesProgrammed`.
    pub condition: ConditionUpdate,
    /// Digest of the routes that all routers last had.
    pub digest: Option<String>,
    /// The preview hosts of its endpoints; none if there is no snapshot yet.
    pub hosts: Option<EndpointHosts>,
}

/// Hosts by endpoint name.
pub(super) type EndpointHosts = BTreeMap<String, String>;

/// Observes the routes of a Sandbox with these forks.
pub(super) fn observe_routes(
    object: &Sandbox,
    forks: &[ForkStatus],
    snapshot: Option<&RouteSnapshot>,
) -> RouteStatus {
    let type_ = types::ROUTES_PROGRAMMED;
    let before = object.status.as_ref().and_then(|it| it.programmed_routes.clone());
    // A snapshot that does not include these forks yet is stale.
    let uid = object.uid().unwrap_or_default();
    let own = snapshot
        .filter(|it| it.has_current_forks(&uid, forks))
        .and_then(|it| Some((it, it.routes.owners.get(&RouteOwner::sandbox(object))?)));
    let Some((snapshot, own)) = own else {
        let why = "the routes are being computed";
        return RouteStatus {
            condition: ConditionUpdate::unknown(type_, reasons::PENDING, why),
            digest: before,
            hosts: None,
        };
    };
    if let Some(finding) = snapshot.mesh.condition_for(&RouteOwner::sandbox(object), own) {
        return RouteStatus { condition: finding, digest: None, hosts: Some(own.hosts.clone()) };
    }
    let found = programming_status(own, &snapshot.routes, &snapshot.routers, before.as_deref());
    let finding = unready_condition(own)
        .filter(|_| found.condition.status == ConditionStatus::True)
        .unwrap_or(found.condition);
    RouteStatus { condition: finding, digest: found.digest, hosts: Some(own.hosts.clone()) }
}

/// Routes that are programmed but have no ready pods. Not reported as programmed, because clients send requests once they are.
fn unready_condition(own: &OwnerRoutes) -> Option<ConditionUpdate> {
    let ports = (!own.unready_ports.is_empty()).then(|| own.unready_ports.join(", "))?;
    let why = format!("requests with the routing key get 503 until pods are ready for {ports}");
    Some(ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::PROGRESSING, why))
}

/// Whether no router and no mesh sends requests to the forks of a Sandbox that is being deleted. Routers withdraw its routes when
/// they see the deletion timestamp; without routers there is nothing to wait for.
pub(super) fn are_withdrawn(object: &Sandbox, snapshot: Option<&RouteSnapshot>) -> bool {
    let Some(snapshot) = snapshot else { return false };
    let is_known = object.uid().is_some_and(|it| snapshot.deleting.contains(&it));
    is_known && snapshot.mesh.is_applied() && snapshot.is_programmed(&object.namespace().unwrap_or_default())
}

/// Triggers Sandboxes whose status is stale after a new route snapshot. Runs as long as it is polled.
pub(super) async fn trigger_on_route_change(ctx: Arc<Context>) {
    let mut told = ctx.snapshotter.subscribe();
    let waker = ctx.trigger_sender();
    while told.changed().await.is_ok() {
        let snapshot = ctx.snapshotter.latest_snapshot();
        for one in ctx.sandboxes().iter().filter_map(|it| it.0.as_ref().ok()) {
            // The receiver is dropped when the controller ends.
            if is_stale(one, snapshot.as_deref()) && waker.unbounded_send(sandbox_ref(one)).is_err() {
                break;
            }
        }
    }
    // The snapshots end only with the process.
    std::future::pending::<()>().await;
}

fn sandbox_ref(object: &Sandbox) -> SandboxObjectRef {
    object_ref(&super::fork_target::cluster_namespace(object), &object.name_any())
}

/// Whether the status of an observed Sandbox differs from the snapshot. One without a status is reconciled anyway.
fn is_stale(object: &Sandbox, snapshot: Option<&RouteSnapshot>) -> bool {
    // A remote Sandbox has its routes in its workload cluster.
    let Some(status) = object.status.as_ref().filter(|_| object.spec.cluster_ref.is_none()) else {
        return false;
    };
    if is_conflict_stale(object, snapshot) {
        return true;
    }
    let now = observe_routes(object, &status.forks, snapshot);
    let before = find(&status.conditions, types::ROUTES_PROGRAMMED);
    let is_same = before.is_some_and(|it| {
        it.status == now.condition.status.as_str()
            && it.reason == now.condition.reason
            && it.message == now.condition.message
    });
    // A rejected spec has no route status.
    let is_accepted =
        find(&status.conditions, types::BASELINE_RESOLVED).is_some_and(|it| it.status != "Unknown");
    let is_found = status.endpoints == endpoint_statuses(object, now.hosts.as_ref());
    is_accepted && !(is_same && is_found && status.programmed_routes == now.digest)
}

/// Whether the routing-key conflict with a `RouteGroup` in the status is out of date.
fn is_conflict_stale(object: &Sandbox, snapshot: Option<&RouteSnapshot>) -> bool {
    let key = current_routing_key(object);
    let groups = snapshot.and_then(|it| it.groups.get(key.as_ref())).into_iter().flatten();
    let groups: Vec<_> = groups.map(|it| (OwnerKind::RouteGroup, it.clone())).collect();
    let conditions = object.status.iter().flat_map(|it| &it.conditions);
    let told = conditions.into_iter().find(|it| it.type_ == types::ACCEPTED);
    match key_conflict::check_routing_key(object, &key, &groups) {
        Err(refusal) => told.is_none_or(|it| it.reason != refusal.reason),
        // Only this function observes RouteGroups; conflicts among Sandboxes are handled by the watch.
        Ok(()) => told.is_some_and(|it| {
            it.reason == reasons::ROUTING_KEY_CONFLICT && it.message.contains(" RouteGroup ")
        }),
    }
}
