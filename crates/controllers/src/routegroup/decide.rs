//! Derives the status, the events and the expiry of a `RouteGroup`. Pure.

use std::time::Duration;

use capt_kinds::sandbox::{
    DataPlane, EndpointStatus, Phase, RouteGroup, RouteGroupStatus, RoutingMode, UnreadyPolicy,
    conditions::{reasons, types},
};
use capt_kube::k8s::{
    EventSpec,
    conditions::{turned_true, whole_seconds},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sandbox::{
    condition::{ConditionUpdate, merge_conditions},
    phase::{self, PhaseInputs},
    routes::{OwnerRoutes, RouteOwner, programming_status},
    ttl::{self, ExpiryStatus, TtlAnchors},
    validate::validate_group,
};

use super::{ACTION, STALE_TABLE_REQUEUE};
use crate::sandbox_common::route_snapshot::RouteSnapshot;

/// The outcome of a reconcile.
#[derive(Debug)]
pub(super) struct RouteGroupDecision {
    /// The new status.
    pub(super) status: RouteGroupStatus,
    /// The events to publish.
    pub(super) events: Vec<EventSpec>,
    /// When to requeue.
    pub(super) requeue_after: Option<Duration>,
    /// Its TTL has expired.
    pub(super) is_expired: bool,
}

/// Derives the outcome from the group and the route snapshot.
pub(super) fn decide(group: &RouteGroup, picture: &RouteSnapshot, now: Timestamp) -> RouteGroupDecision {
    let before = group.status.clone().unwrap_or_default();
    let owner = RouteOwner::group(group);
    let own = picture.routes.owners.get(&owner).cloned().unwrap_or_default();
    let mut status = observe_group(group, &own, picture, now);
    let end = group.spec.ttl.as_ref().and_then(|it| ttl::group_expiry(it, ttl_anchors(group, &status, now)));
    status.scheduled_delete_time = end.map(Time);
    let due = end.map(|end| ttl::expiry_status(ttl_start(group, end), end, now));
    let is_over = due == Some(ExpiryStatus::Expired);
    let generation = group.metadata.generation;
    // The snapshot does not include a newer spec.
    let is_late = picture.generations.get(&owner).copied() < generation;
    let last = before.programmed_routes.as_deref();
    let mut findings = vec![accepted_condition(group, &own), resolved_condition(&own)];
    if let Some(finding) = picture.mesh.condition_for(&owner, &own).filter(|_| !is_late) {
        findings.push(finding);
    } else if !is_late {
        let it = programming_status(&own, &picture.routes, &picture.routers, last);
        findings.push(it.condition);
        status.programmed_routers = Some(it.routers);
        status.programmed_routes = it.digest;
    }
    findings.push(ready_condition(group, &own, &findings));
    let was_ready = phase::was_ready(before.phase, &before.conditions, generation);
    status.conditions =
        merge_conditions(&before.conditions, &findings, &types::OF_ROUTE_GROUP, generation, now);
    let life = PhaseInputs { deleting: false, expired: is_over, was_ready };
    status.phase = Some(phase::derive_phase(&status.conditions, life));
    let again = match due {
        Some(ExpiryStatus::Pending { recheck_after: after, .. }) => Some(after),
        Some(ExpiryStatus::Expired) | None => None,
    };
    let again =
        if is_late { Some(again.unwrap_or(STALE_TABLE_REQUEUE).min(STALE_TABLE_REQUEUE)) } else { again };
    let news = diff_events(&before, &status, due);
    RouteGroupDecision { status, events: news, requeue_after: again, is_expired: is_over }
}

fn observe_group(
    group: &RouteGroup,
    own: &OwnerRoutes,
    picture: &RouteSnapshot,
    now: Timestamp,
) -> RouteGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let count = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
    let endpoint = |it: &capt_kinds::sandbox::Endpoint| EndpointStatus {
        name: it.name.clone(),
        target: it.target.clone(),
        url: own.hosts.get(&it.name).map(|host| format!("https://{host}")),
    };
    let unmatched =
        own.members.is_empty().then(|| before.unmatched_since.unwrap_or_else(|| Time(whole_seconds(now))));
    let namespace = group.metadata.namespace.as_deref().unwrap_or_default();
    RouteGroupStatus {
        observed_generation: group.metadata.generation,
        routing_key: Some(own.key.clone()).filter(|it| !it.is_empty()),
        ready_sandboxes: count(own.members.iter().filter(|it| picture.ready.contains(*it)).count()),
        total_sandboxes: count(own.members.len()),
        matched_sandboxes: own.members.clone(),
        conflicts: own.conflicts.clone(),
        data_plane: Some(match group.spec.routing.mode {
            _ if picture.mesh.routes_owner(&RouteOwner::group(group)) => DataPlane::GatewayApi,
            RoutingMode::GatewayApi => DataPlane::GatewayApi,
            RoutingMode::Auto | RoutingMode::Router => DataPlane::Router,
            RoutingMode::Explicit => DataPlane::Explicit,
        }),
        routes: count(own.routes),
        table_revision: picture.routes.revisions.get(namespace).cloned(),
        endpoints: group.spec.endpoints.iter().map(endpoint).collect(),
        spec_changed_time: Some(Time(spec_changed_at(group, now))),
        unmatched_since: unmatched,
        ..RouteGroupStatus::default()
    }
}

/// When the spec last changed, as observed by the controller.
fn spec_changed_at(group: &RouteGroup, now: Timestamp) -> Timestamp {
    let before = group.status.as_ref();
    let is_seen = before.is_some_and(|it| it.observed_generation == group.metadata.generation);
    let noted = before.and_then(|it| it.spec_changed_time.as_ref()).filter(|_| is_seen).map(|it| it.0);
    let is_first = group.metadata.generation.is_none_or(|it| it <= 1);
    let created = group.metadata.creation_timestamp.as_ref().map(|it| it.0).filter(|_| is_first);
    noted.or(created).unwrap_or_else(|| whole_seconds(now))
}

fn ttl_anchors(group: &RouteGroup, status: &RouteGroupStatus, now: Timestamp) -> TtlAnchors {
    let created = group.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    TtlAnchors {
        created,
        updated: status.spec_changed_time.as_ref().map_or(created, |it| it.0),
        unmatched_since: status.unmatched_since.as_ref().map(|it| it.0),
    }
}

/// Start of the TTL that ends at `end`.
fn ttl_start(group: &RouteGroup, end: Timestamp) -> Timestamp {
    let length = group.spec.ttl.as_ref().and_then(|it| ttl::parse_duration(&it.duration)).unwrap_or_default();
    end.checked_sub(length).unwrap_or(end)
}

fn accepted_condition(group: &RouteGroup, own: &OwnerRoutes) -> ConditionUpdate {
    let kind = types::ACCEPTED;
    if let Err(refusal) = validate_group(group) {
        return ConditionUpdate::no(kind, refusal.reason, refusal.message);
    }
    if let Some(older) = &own.key_holder {
        let why = format!("routing key {:?} is held by the older {older}", own.key);
        return ConditionUpdate::no(kind, reasons::ROUTING_KEY_CONFLICT, why);
    }
    match own.missing_targets.as_slice() {
        [] => ConditionUpdate::yes(kind, reasons::ACCEPTED, ""),
        missing => {
            let why = format!("no Service exists for the endpoints {}", missing.join(", "));
            ConditionUpdate::no(kind, reasons::TARGET_NOT_FOUND, why)
        }
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

fn diff_events(
    before: &RouteGroupStatus,
    now: &RouteGroupStatus,
    due: Option<ExpiryStatus>,
) -> Vec<EventSpec> {
    let mut all = Vec::new();
    let (old, new) = (&before.conditions, &now.conditions);
    if turned_true(old, new, types::ACCEPTED).is_some() {
        all.push(EventSpec::normal(ACTION, "Accepted", "the spec is valid"));
    }
    let turned_bad = |type_: &str, reason: &str| {
        let is = |it: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            it.type_ == type_ && it.status == "False" && it.reason == reason
        };
        new.iter().find(|it| is(it)).filter(|it| !old.iter().any(|was| is(was) && was.message == it.message))
    };
    for (type_, reason) in
        [(types::RESOLVED, reasons::CONFLICT), (types::ACCEPTED, reasons::ROUTING_KEY_CONFLICT)]
    {
        all.extend(
            turned_bad(type_, reason).map(|it| EventSpec::warning(ACTION, "Conflict", it.message.clone())),
        );
    }
    if turned_true(old, new, types::ROUTES_PROGRAMMED).is_some() && now.routes > 0 {
        all.push(EventSpec::normal(
            ACTION,
            "RoutesProgrammed",
            "requests with the routing key reach the forks",
        ));
    }
    let is_expiring = matches!(due, Some(ExpiryStatus::Pending { is_expiring: true, .. }));
    if is_expiring && before.phase != Some(Phase::Expired) {
        let at = now.scheduled_delete_time.as_ref().map(|it| it.0.to_string()).unwrap_or_default();
        all.push(EventSpec::normal(
            ACTION,
            "Expiring",
            format!("TTL expires soon; deletion scheduled for {at}"),
        ));
    }
    all
}
