//! Derives the status of a local workload from its spec, its Sandbox and the session that its router wrote. Pure.

use std::time::Duration;

use capt_kinds::sandbox::{
    LocalPhase, LocalProtocol, LocalWorkload, LocalWorkloadStatus, Sandbox,
    conditions::{reasons, types},
};
use capt_kube::k8s::EventSpec;
use jiff::Timestamp;
use sandbox::{
    condition::{ConditionUpdate, is_true},
    local_slots::check_slot,
    local_status::{ConnectionState, active_session, connection_conditions, merge_status},
    ttl,
    validate::validate_local,
};

use super::dereference::{BaselineLookup, LocalWorkloadInputs};

/// How long a router may send no heartbeat, which it writes every 30 s.
pub(super) const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(90);

/// The outcome of a reconcile.
pub(super) struct LocalWorkloadDecision {
    pub(super) status: LocalWorkloadStatus,
    pub(super) event: Option<EventSpec>,
    pub(super) requeue_after: Option<Duration>,
}

pub(super) fn decide(
    object: &LocalWorkload,
    around: &LocalWorkloadInputs,
    now: Timestamp,
) -> LocalWorkloadDecision {
    let before = object.status.clone().unwrap_or_default();
    let mut found = vec![accepted_condition(object, around), programmed_condition(around.sandbox.as_ref())];
    let left = heartbeat_time_left(&before, &object.spec.disconnect_grace_period, now);
    if left == Some(Duration::ZERO) {
        let why = "the router that held the connection stopped sending heartbeats";
        found.extend(connection_conditions(&ConnectionState::Disconnected(why.to_owned()), &before.ports));
    }
    let mut status = merge_status(&before, &found, object.metadata.generation, now);
    status.observed_generation = object.metadata.generation;
    // Kept while the baseline is missing: the Services apply again when it is recreated.
    if let BaselineLookup::Found(services) = &around.baseline {
        status.services.clone_from(services);
    }
    let news = phase_event(before.phase, &status);
    LocalWorkloadDecision { status, event: news, requeue_after: left.filter(|it| !it.is_zero()) }
}

fn accepted_condition(object: &LocalWorkload, around: &LocalWorkloadInputs) -> ConditionUpdate {
    let (kind, spec) = (types::ACCEPTED, &object.spec);
    if let Err(refusal) = validate_local(object) {
        return ConditionUpdate::no(kind, refusal.reason, refusal.message);
    }
    if let Some(cluster) = around.sandbox.as_ref().and_then(|it| it.spec.cluster_ref.as_ref()) {
        let message = format!(
            "Sandbox {} runs in cluster {}; create this object there, or list it in spec.local of the Sandbox",
            spec.sandbox_ref.name, cluster.name
        );
        return ConditionUpdate::no(kind, reasons::OTHER_CLUSTER, message);
    }
    let Some(sandbox) = &around.sandbox else {
        let message = format!("Sandbox {} does not exist in this namespace yet", spec.sandbox_ref.name);
        return ConditionUpdate::no(kind, reasons::SANDBOX_NOT_FOUND, message);
    };
    if let Err(refusal) = check_slot(object, sandbox, &around.locals) {
        return ConditionUpdate::no(kind, refusal.reason, refusal.message);
    }
    if around.baseline == BaselineLookup::NotFound {
        let message = format!("Deployment {} does not exist in this namespace", spec.from.name);
        return ConditionUpdate::no(kind, reasons::BASELINE_NOT_FOUND, message);
    }
    ConditionUpdate::yes(kind, reasons::ACCEPTED, tcp_note(object))
}

/// A note on ports that do not speak HTTP; empty if there are none.
fn tcp_note(object: &LocalWorkload) -> String {
    let bytes = object.spec.mappings.iter().filter(|it| it.app_protocol == LocalProtocol::Tcp);
    let ports: Vec<String> = bytes.map(|it| it.port.to_string()).collect();
    if ports.is_empty() {
        return String::new();
    }
    format!(
        "tcp: {}: raw TCP carries no key, so connections go to the baseline; only HTTP upgrades are routed here",
        ports.join(", ")
    )
}

/// `RoutesProgrammed`, copied from the Sandbox: a local workload has no routes of its own.
fn programmed_condition(sandbox: Option<&Sandbox>) -> ConditionUpdate {
    let conditions = sandbox.and_then(|it| it.status.as_ref()).map(|it| it.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    if is_true(conditions, types::ROUTES_PROGRAMMED) {
        return ConditionUpdate::yes(types::ROUTES_PROGRAMMED, reasons::PROGRAMMED, "");
    }
    let why = conditions.iter().find(|it| it.type_ == types::ROUTES_PROGRAMMED);
    let message = why.map_or("the Sandbox has not reported its routes yet", |it| it.message.as_str());
    match why.map(|it| it.status.as_str()) {
        Some("False") => ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::ROUTERS_BEHIND, message),
        _ => ConditionUpdate::unknown(types::ROUTES_PROGRAMMED, reasons::PENDING, message),
    }
}

/// Time until the heartbeat of a session times out; `None` without a session. While an agent is reconnecting, its grace period is
/// added.
fn heartbeat_time_left(status: &LocalWorkloadStatus, grace: &str, now: Timestamp) -> Option<Duration> {
    let heard = active_session(status)?.last_heartbeat_time.as_ref()?.0;
    let grace = ttl::parse_grace_period(grace).and_then(|it| Duration::try_from(it).ok()).unwrap_or_default();
    let awaited = if is_true(&status.conditions, types::CONNECTED) { Duration::ZERO } else { grace };
    let silent = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
    Some((HEARTBEAT_TIMEOUT + awaited).saturating_sub(silent))
}

/// The event for a phase transition.
fn phase_event(before: Option<LocalPhase>, status: &LocalWorkloadStatus) -> Option<EventSpec> {
    let session = status.session.clone().unwrap_or_default();
    if before == status.phase {
        return None;
    }
    match status.phase {
        Some(LocalPhase::Disconnected) => {
            let note = format!("connection of {} lost", session.user);
            Some(EventSpec::warning("Connect", "TunnelLost", note))
        }
        Some(LocalPhase::Failed) => {
            let refused = status.conditions.iter().find(|it| it.type_ == types::ACCEPTED);
            let note = refused.map(|it| it.message.clone()).unwrap_or_default();
            Some(EventSpec::warning("Validate", "Refused", note))
        }
        _ => None,
    }
}
