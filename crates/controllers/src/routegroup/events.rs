//! Events of a group from the difference of two statuses. Pure.

use capt_kinds::sandbox::{
    Phase, RouteGroupStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::{EventSpec, conditions::turned_true};

/// `action` of the events of this controller.
const ACTION: &str = "Reconcile";

/// The event before an expired group is deleted.
pub(super) fn expired() -> EventSpec {
    EventSpec::normal(ACTION, "Expired", "TTL expired; deleting the RouteGroup")
}

/// Events for the transitions between two statuses.
pub(super) fn diff_events(
    before: &RouteGroupStatus,
    now: &RouteGroupStatus,
    is_expiring: bool,
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
