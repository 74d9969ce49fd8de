//! What is to be said of a group, and when it is over. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sandbox::{
    api::{
        DataPlane, EndpointStatus, Phase, RouteGroup, RouteGroupStatus, RoutingMode, UnreadyPolicy,
        conditions::{reasons, types},
    },
    condition::{Finding, written},
    phase::{self, Life},
    routes::{Own, Owner, programmed},
    ttl::{self, Due, Moments},
    validate::validate_group,
};

use super::{ACTION, SOON};
use crate::{
    controllers::common::board::Picture,
    k8s::{
        News,
        conditions::{turned_true, whole_seconds},
    },
};

/// What is to be said of a group.
#[derive(Debug)]
pub(super) struct Decided {
    /// What is true of it.
    pub(super) status: RouteGroupStatus,
    /// What is worth an event.
    pub(super) news: Vec<News>,
    /// When to look again, if nothing happens before.
    pub(super) again: Option<Duration>,
    /// Its time is over.
    pub(super) is_over: bool,
}

/// Decides.
pub(super) fn decide(group: &RouteGroup, picture: &Picture, now: Timestamp) -> Decided {
    let before = group.status.clone().unwrap_or_default();
    let owner = Owner::group(group);
    let own = picture.routes.owners.get(&owner).cloned().unwrap_or_default();
    let mut status = observed(group, &own, picture, now);
    let end = group.spec.ttl.as_ref().and_then(|it| ttl::of_group(it, moments(group, &status, now)));
    status.scheduled_delete_time = end.map(Time);
    let due = end.map(|end| ttl::due(begin(group, end), end, now));
    let is_over = due == Some(Due::Over);
    let generation = group.metadata.generation;
    // A spec that is newer than the table is not in it.
    let is_late = picture.generations.get(&owner).copied() < generation;
    let last = before.programmed_routes.as_deref();
    let mut findings = vec![accepted(group, &own), resolved(&own)];
    if let Some(finding) = picture.mesh.said(&owner, &own).filter(|_| !is_late) {
        findings.push(finding);
    } else if !is_late {
        let it = programmed(&own, &picture.routes, &picture.routers, last);
        findings.push(it.finding);
        status.programmed_routers = Some(it.routers);
        status.programmed_routes = it.digest;
    }
    findings.push(ready(group, &own, &findings));
    let was_ready = phase::was_ready(before.phase, &before.conditions, generation);
    status.conditions = written(&before.conditions, &findings, &types::OF_ROUTE_GROUP, generation, now);
    let life = Life { deleting: false, expired: is_over, was_ready };
    status.phase = Some(phase::phase(&status.conditions, life));
    let again = match due {
        Some(Due::In { after, .. }) => Some(after),
        Some(Due::Over) | None => None,
    };
    let again = if is_late { Some(again.unwrap_or(SOON).min(SOON)) } else { again };
    let news = news(&before, &status, due);
    Decided { status, news, again, is_over }
}

fn observed(group: &RouteGroup, own: &Own, picture: &Picture, now: Timestamp) -> RouteGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let count = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
    let endpoint = |it: &sandbox::api::Endpoint| EndpointStatus {
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
            _ if picture.mesh.has(&Owner::group(group)) => DataPlane::GatewayApi,
            RoutingMode::GatewayApi => DataPlane::GatewayApi,
            RoutingMode::Auto | RoutingMode::Router => DataPlane::Router,
            RoutingMode::Explicit => DataPlane::Explicit,
        }),
        routes: count(own.routes),
        table_revision: picture.routes.revisions.get(namespace).cloned(),
        endpoints: group.spec.endpoints.iter().map(endpoint).collect(),
        spec_changed_time: Some(Time(spec_changed(group, now))),
        unmatched_since: unmatched,
        ..RouteGroupStatus::default()
    }
}

/// When the spec changed last, as far as it was seen.
fn spec_changed(group: &RouteGroup, now: Timestamp) -> Timestamp {
    let before = group.status.as_ref();
    let is_seen = before.is_some_and(|it| it.observed_generation == group.metadata.generation);
    let noted = before.and_then(|it| it.spec_changed_time.as_ref()).filter(|_| is_seen).map(|it| it.0);
    let is_first = group.metadata.generation.is_none_or(|it| it <= 1);
    let created = group.metadata.creation_timestamp.as_ref().map(|it| it.0).filter(|_| is_first);
    noted.or(created).unwrap_or_else(|| whole_seconds(now))
}

fn moments(group: &RouteGroup, status: &RouteGroupStatus, now: Timestamp) -> Moments {
    let created = group.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    Moments {
        created,
        updated: status.spec_changed_time.as_ref().map_or(created, |it| it.0),
        unmatched: status.unmatched_since.as_ref().map(|it| it.0),
    }
}

/// When the life began that ends then.
fn begin(group: &RouteGroup, end: Timestamp) -> Timestamp {
    let length = group.spec.ttl.as_ref().and_then(|it| ttl::duration(&it.duration)).unwrap_or_default();
    end.checked_sub(length).unwrap_or(end)
}

fn accepted(group: &RouteGroup, own: &Own) -> Finding {
    let kind = types::ACCEPTED;
    if let Err(refusal) = validate_group(group) {
        return Finding::no(kind, refusal.reason, refusal.message);
    }
    if let Some(older) = &own.older {
        let why = format!("the key {:?} is that of {older}, which is older", own.key);
        return Finding::no(kind, reasons::ROUTING_KEY_CONFLICT, why);
    }
    match own.missing_targets.as_slice() {
        [] => Finding::yes(kind, reasons::ACCEPTED, ""),
        missing => {
            let why = format!("there is no Service behind the endpoints {}", missing.join(", "));
            Finding::no(kind, reasons::TARGET_NOT_FOUND, why)
        }
    }
}

fn resolved(own: &Own) -> Finding {
    let kind = types::RESOLVED;
    if own.members.is_empty() {
        return Finding::no(kind, reasons::NO_MATCHED_SANDBOXES, "no sandbox belongs to it");
    }
    if own.conflicts.is_empty() {
        return Finding::yes(kind, reasons::RESOLVED, "");
    }
    let one = |it: &sandbox::api::Conflict| format!("{} by {}", it.baseline, it.sandboxes.join(" and "));
    let all: Vec<_> = own.conflicts.iter().map(one).collect();
    Finding::no(kind, reasons::CONFLICT, format!("overridden more than once: {}", all.join("; ")))
}

/// Ready when everything else holds and every route has somebody who answers, unless the group leaves that to the baseline.
fn ready(group: &RouteGroup, own: &Own, findings: &[Finding]) -> Finding {
    let ready = phase::ready(findings, &types::OF_ROUTE_GROUP);
    let is_strict = group.spec.routing.unready_policy == UnreadyPolicy::Fail;
    if ready.reason == reasons::READY && is_strict && !own.unready.is_empty() {
        let why = format!("nobody answers for {} yet", own.unready.join(", "));
        return Finding::no(types::READY, reasons::SANDBOXES_NOT_READY, why);
    }
    ready
}

fn news(before: &RouteGroupStatus, now: &RouteGroupStatus, due: Option<Due>) -> Vec<News> {
    let mut all = Vec::new();
    let (old, new) = (&before.conditions, &now.conditions);
    if turned_true(old, new, types::ACCEPTED).is_some() {
        all.push(News::normal(ACTION, "Accepted", "it can be followed"));
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
        all.extend(turned_bad(type_, reason).map(|it| News::warning(ACTION, "Conflict", it.message.clone())));
    }
    if turned_true(old, new, types::ROUTES_PROGRAMMED).is_some() && now.routes > 0 {
        all.push(News::normal(ACTION, "RoutesProgrammed", "its key leads to its forks"));
    }
    let is_expiring = matches!(due, Some(Due::In { expiring: true, .. }));
    if is_expiring && before.phase != Some(Phase::Expired) {
        let at = now.scheduled_delete_time.as_ref().map(|it| it.0.to_string()).unwrap_or_default();
        all.push(News::normal(ACTION, "Expiring", format!("it is deleted at {at}")));
    }
    all
}
