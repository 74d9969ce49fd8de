//! Events from the difference between the old and the new status of a Sandbox.

use std::collections::BTreeSet;

use capt_kinds::sandbox::{
    Phase, Sandbox, SandboxStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::{
    conditions::{find, is_true, turned_true},
    events::EventSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{ACTION, build::BuiltFork, context::Context};

/// The metric label of a phase.
pub(super) const fn phase_label(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Progressing => "Progressing",
        Phase::Ready => "Ready",
        Phase::Degraded => "Degraded",
        Phase::Failed => "Failed",
        Phase::Expired => "Expired",
        Phase::Terminating => "Terminating",
    }
}

/// The events for the transition from `old` to `new`.
pub(super) fn diff(old: &SandboxStatus, new: &SandboxStatus) -> Vec<EventSpec> {
    let (before, now) = (&old.conditions, &new.conditions);
    let mut all = Vec::new();
    if turned_true(before, now, types::ACCEPTED).is_some() {
        let key = new.routing_key.as_deref().unwrap_or_default();
        all.push(EventSpec::normal(
            ACTION,
            "Accepted",
            format!("requests with routing key {key} will be routed to the forks"),
        ));
    }
    if let Some(refused) = turned_false(before, now, types::ACCEPTED) {
        let reason = if refused.reason == reasons::ROUTING_KEY_CONFLICT { "Conflict" } else { "ForkFailed" };
        all.push(EventSpec::warning(ACTION, reason, format!("{}: {}", refused.reason, refused.message)));
    }
    if turned_true(before, now, types::FORKS_READY).is_some() && !new.forks.is_empty() {
        let names: Vec<&str> = new.forks.iter().filter_map(|it| it.workload.as_deref()).collect();
        all.push(EventSpec::normal(ACTION, "ForkReady", format!("ready: {}", names.join(", "))));
    }
    let failing = [reasons::POD_FAILING, reasons::PROGRESS_DEADLINE_EXCEEDED];
    let failed = turned_false(before, now, types::FORKS_READY);
    if let Some(failed) = failed.filter(|it| failing.contains(&it.reason.as_str())) {
        all.push(EventSpec::warning(ACTION, "ForkFailed", failed.message.clone()));
    }
    if turned_true(before, now, types::ROUTES_PROGRAMMED).is_some() {
        all.push(EventSpec::normal(
            ACTION,
            "RoutesProgrammed",
            "requests with the routing key reach the forks",
        ));
    }
    for type_ in [types::BASELINE_RESOLVED, types::COMPUTE_READY] {
        if let Some(bad) = turned_false(before, now, type_) {
            all.push(EventSpec::warning(ACTION, "Waiting", format!("{}: {}", bad.reason, bad.message)));
        }
    }
    all
}

/// A condition that is False and was not, or had another reason or message.
fn turned_false<'a>(old: &[Condition], new: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    let now = find(new, type_).filter(|it| it.status == "False" && !is_true(new, type_))?;
    let before = find(old, type_);
    let is_same = before
        .is_some_and(|it| (&it.status, &it.reason, &it.message) == (&now.status, &now.reason, &now.message));
    (!is_same).then_some(now)
}

/// Publishes events about forks that were created or follow a changed baseline.
pub(super) async fn publish_fork_events(
    object: &Sandbox,
    built: &[BuiltFork],
    (moved, made): (&[(String, String, String)], &BTreeSet<String>),
    ctx: &Context,
) {
    for (fork, from, to) in moved {
        let short = |hash: &String| hash.get(..8).unwrap_or(hash).to_owned();
        let note = format!("fork {fork} follows its baseline: {} -> {}", short(from), short(to));
        ctx.common.events.publish(object, EventSpec::normal("Follow", "BaselineChanged", note)).await;
    }
    // Published once per apply, not per reconcile. A fork that waited is created long after its generation was first observed.
    let is_new = object.status.as_ref().and_then(|it| it.observed_generation) != object.metadata.generation;
    for one in built.iter().filter(|it| is_new || !moved.is_empty() || made.contains(&it.name)) {
        if let Some(policies) = &one.policy_note {
            let note = format!("fork {}: {policies}", one.name);
            ctx.common
                .events
                .publish(object, EventSpec::warning("Policies", "NetworkPolicyDiffers", note))
                .await;
        }
        if !one.notes.is_empty() {
            let note = format!("fork {}: {}", one.name, one.notes.join("; "));
            ctx.common.events.publish(object, EventSpec::warning("Note", "Forked", note)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandbox::condition::{ConditionUpdate, merge_conditions};

    use super::*;

    fn status(findings: &[ConditionUpdate]) -> SandboxStatus {
        let conditions = merge_conditions(&[], findings, &types::OF_SANDBOX, Some(1), Timestamp::UNIX_EPOCH);
        SandboxStatus { conditions, ..SandboxStatus::default() }
    }

    fn reasons_of(old: &SandboxStatus, new: &SandboxStatus) -> Vec<&'static str> {
        diff(old, new).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn every_transition_is_told_once() {
        let nothing = status(&[]);
        let accepted = status(&[ConditionUpdate::yes(types::ACCEPTED, reasons::ACCEPTED, "")]);
        let refused = status(&[ConditionUpdate::no(types::ACCEPTED, reasons::INVALID_PATCH, "bad")]);
        let rival = status(&[ConditionUpdate::no(types::ACCEPTED, reasons::ROUTING_KEY_CONFLICT, "older")]);
        let failing =
            status(&[ConditionUpdate::no(types::FORKS_READY, reasons::POD_FAILING, "ImagePullBackOff")]);
        let starting = status(&[ConditionUpdate::no(types::FORKS_READY, reasons::PROGRESSING, "")]);
        assert_eq!(reasons_of(&nothing, &accepted), ["Accepted"]);
        assert_eq!(reasons_of(&accepted, &accepted), [""; 0]);
        assert_eq!(reasons_of(&nothing, &refused), ["ForkFailed"]);
        assert_eq!(reasons_of(&refused, &refused), [""; 0]);
        assert_eq!(reasons_of(&nothing, &rival), ["Conflict"]);
        assert_eq!(reasons_of(&starting, &failing), ["ForkFailed"]);
        assert_eq!(reasons_of(&nothing, &starting), [""; 0], "pods that start are no news");
    }
}
