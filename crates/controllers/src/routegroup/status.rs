//! Computes the status of a group from its routes and the decision. Pure.

use capt_kinds::sandbox::{
    DataPlane, EndpointStatus, RouteGroup, RouteGroupStatus, RoutingMode, UnreadyPolicy,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sandbox::{
    condition::{ConditionUpdate, merge_conditions},
    phase::{self, PhaseInputs},
    routes::{OwnerRoutes, programming_status},
};

use super::{decide::GroupDecision, dereference::GroupRoutes};

/// The new status.
pub(super) fn observed(
    group: &RouteGroup,
    (routes, accepted): (&GroupRoutes<'_>, ConditionUpdate),
    decision: &GroupDecision,
    now: Timestamp,
) -> RouteGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let (own, snapshot) = (&routes.own, routes.snapshot);
    let mut status = observe_group(group, routes, decision);
    let generation = group.metadata.generation;
    let last = before.programmed_routes.as_deref();
    let mut findings = vec![accepted, resolved_condition(own)];
    if let Some(finding) = snapshot.mesh.condition_for(&routes.owner, own).filter(|_| !routes.is_late) {
        findings.push(finding);
    } else if !routes.is_late {
        let it = programming_status(own, &snapshot.routes, &snapshot.routers, last);
        findings.push(it.condition);
        status.programmed_routers = Some(it.routers);
        status.programmed_routes = it.digest;
    }
    findings.push(ready_condition(group, own, &findings));
    let was_ready = phase::was_ready(before.phase, &before.conditions, generation);
    status.conditions =
        merge_conditions(&before.conditions, &findings, &types::OF_ROUTE_GROUP, generation, now);
    let life = PhaseInputs { deleting: false, expired: decision.is_expired(), was_ready };
    status.phase = Some(phase::derive_phase(&status.conditions, life));
    status
}

fn observe_group(group: &RouteGroup, routes: &GroupRoutes<'_>, decision: &GroupDecision) -> RouteGroupStatus {
    let (own, snapshot) = (&routes.own, routes.snapshot);
    let count = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
    let endpoint = |it: &capt_kinds::sandbox::Endpoint| EndpointStatus {
        name: it.name.clone(),
        target: it.target.clone(),
        url: own.hosts.get(&it.name).map(|host| format!("https://{host}")),
    };
    let namespace = group.metadata.namespace.as_deref().unwrap_or_default();
    RouteGroupStatus {
        observed_generation: group.metadata.generation,
        routing_key: Some(own.key.clone()).filter(|it| !it.is_empty()),
        ready_sandboxes: count(own.members.iter().filter(|it| snapshot.ready.contains(*it)).count()),
        total_sandboxes: count(own.members.len()),
        matched_sandboxes: own.members.clone(),
        conflicts: own.conflicts.clone(),
        data_plane: Some(match group.spec.routing.mode {
            _ if snapshot.mesh.routes_owner(&routes.owner) => DataPlane::GatewayApi,
            RoutingMode::GatewayApi => DataPlane::GatewayApi,
            RoutingMode::Auto | RoutingMode::Router => DataPlane::Router,
            RoutingMode::Explicit => DataPlane::Explicit,
        }),
        routes: count(own.routes),
        table_revision: snapshot.routes.revisions.get(namespace).cloned(),
        endpoints: group.spec.endpoints.iter().map(endpoint).collect(),
        spec_changed_time: Some(Time(decision.spec_changed_at)),
        unmatched_since: decision.unmatched_since.clone(),
        scheduled_delete_time: decision.expires_at.map(Time),
        ..RouteGroupStatus::default()
    }
}

fn resolved_condition(own: &OwnerRoutes) -> ConditionUpdate {
    let kind = types::RESOLVED;
    if own.members.is_empty() {
        return ConditionUpdate::no(kind, reasons::NO_MATCHED_SANDBOXES, "no Sandbox matches the group");
    }
    if own.conflicts.is_empty() {
        return ConditionUpdate::yes(kind, reasons::RESOLVED, "");
    }
    let one =
        |it: &capt_kinds::sandbox::Conflict| format!("{} by {}", it.baseline, it.sandboxes.join(" and "));
    let all: Vec<_> = own.conflicts.iter().map(one).collect();
    ConditionUpdate::no(kind, reasons::CONFLICT, format!("overridden more than once: {}", all.join("; ")))
}

/// `Ready`: all other conditions are True and every route has ready pods, unless the unready policy falls back to the baseline.
fn ready_condition(group: &RouteGroup, own: &OwnerRoutes, findings: &[ConditionUpdate]) -> ConditionUpdate {
    let ready = phase::ready_condition(findings, &types::OF_ROUTE_GROUP);
    let is_strict = group.spec.routing.unready_policy == UnreadyPolicy::Fail;
    if ready.reason == reasons::READY && is_strict && !own.unready_ports.is_empty() {
        let why = format!("no pod is ready yet for {}", own.unready_ports.join(", "));
        return ConditionUpdate::no(types::READY, reasons::SANDBOXES_NOT_READY, why);
    }
    ready
}
