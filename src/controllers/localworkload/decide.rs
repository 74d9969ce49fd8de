//! What is said of a local workload, by its spec, its sandbox and what its router wrote. Pure.

use std::time::Duration;

use jiff::Timestamp;
use sandbox::{
    api::{
        LocalPhase, LocalProtocol, LocalWorkload, LocalWorkloadStatus, Sandbox,
        conditions::{reasons, types},
    },
    condition::{Finding, is_true},
    local_place::place,
    local_status::{Link, after, findings, live},
    ttl,
    validate::validate_local,
};

use super::look::{Around, Baseline};
use crate::k8s::News;

/// How long a router may say nothing of a session: it does every thirty seconds.
pub(super) const SILENCE: Duration = Duration::from_secs(90);

/// What is to be said, and when to look again.
pub(super) struct Decided {
    pub(super) status: LocalWorkloadStatus,
    pub(super) news: Option<News>,
    pub(super) again: Option<Duration>,
}

pub(super) fn decide(object: &LocalWorkload, around: &Around, now: Timestamp) -> Decided {
    let before = object.status.clone().unwrap_or_default();
    let mut found = vec![accepted(object, around), programmed(around.sandbox.as_ref())];
    let left = time_left(&before, &object.spec.disconnect_grace_period, now);
    if left == Some(Duration::ZERO) {
        let why = "the router that held the connection says nothing any more";
        found.extend(findings(&Link::Disconnected(why.to_owned()), &before.ports));
    }
    let mut status = after(&before, &found, object.metadata.generation, now);
    status.observed_generation = object.metadata.generation;
    // What leads to a baseline that is gone for a moment leads to it again when it is back.
    if let Baseline::Behind(services) = &around.baseline {
        status.services.clone_from(services);
    }
    let news = news(before.phase, &status);
    Decided { status, news, again: left.filter(|it| !it.is_zero()) }
}

fn accepted(object: &LocalWorkload, around: &Around) -> Finding {
    let (kind, spec) = (types::ACCEPTED, &object.spec);
    if let Err(refusal) = validate_local(object) {
        return Finding::no(kind, refusal.reason, refusal.message);
    }
    if let Some(cluster) = around.sandbox.as_ref().and_then(|it| it.spec.cluster_ref.as_ref()) {
        let message = format!(
            "Sandbox {} lives in the cluster {}; make this object there, or name it in spec.local of the Sandbox",
            spec.sandbox_ref.name, cluster.name
        );
        return Finding::no(kind, reasons::OTHER_CLUSTER, message);
    }
    let Some(sandbox) = &around.sandbox else {
        let message = format!("there is no Sandbox {} in this namespace yet", spec.sandbox_ref.name);
        return Finding::no(kind, reasons::SANDBOX_NOT_FOUND, message);
    };
    if let Err(refusal) = place(object, sandbox, &around.locals) {
        return Finding::no(kind, refusal.reason, refusal.message);
    }
    if around.baseline == Baseline::Absent {
        let message = format!("there is no Deployment {} in this namespace", spec.from.name);
        return Finding::no(kind, reasons::BASELINE_NOT_FOUND, message);
    }
    Finding::yes(kind, reasons::ACCEPTED, of_bytes(object))
}

/// What is to be known of ports that speak no HTTP; nothing if there are none.
fn of_bytes(object: &LocalWorkload) -> String {
    let bytes = object.spec.mappings.iter().filter(|it| it.app_protocol == LocalProtocol::Tcp);
    let ports: Vec<String> = bytes.map(|it| it.port.to_string()).collect();
    if ports.is_empty() {
        return String::new();
    }
    format!(
        "tcp: {}: bytes carry no key, so connections go to the service and only upgrades come here",
        ports.join(", ")
    )
}

/// A local workload has no routes of its own: they are its sandbox's.
fn programmed(sandbox: Option<&Sandbox>) -> Finding {
    let conditions = sandbox.and_then(|it| it.status.as_ref()).map(|it| it.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    if is_true(conditions, types::ROUTES_PROGRAMMED) {
        return Finding::yes(types::ROUTES_PROGRAMMED, reasons::PROGRAMMED, "");
    }
    let why = conditions.iter().find(|it| it.type_ == types::ROUTES_PROGRAMMED);
    let message = why.map_or("the sandbox has said nothing of its routes yet", |it| it.message.as_str());
    match why.map(|it| it.status.as_str()) {
        Some("False") => Finding::no(types::ROUTES_PROGRAMMED, reasons::ROUTERS_BEHIND, message),
        _ => Finding::unknown(types::ROUTES_PROGRAMMED, reasons::PENDING, message),
    }
}

/// How long the router of a session may still be silent; nothing where nobody is said to be connected. While an agent is
/// expected back there is nothing to say until the time of grace is over.
fn time_left(status: &LocalWorkloadStatus, grace: &str, now: Timestamp) -> Option<Duration> {
    let heard = live(status)?.last_heartbeat_time.as_ref()?.0;
    let grace = ttl::grace(grace).and_then(|it| Duration::try_from(it).ok()).unwrap_or_default();
    let awaited = if is_true(&status.conditions, types::CONNECTED) { Duration::ZERO } else { grace };
    let silent = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
    Some((SILENCE + awaited).saturating_sub(silent))
}

/// What people hear of.
fn news(before: Option<LocalPhase>, status: &LocalWorkloadStatus) -> Option<News> {
    let session = status.session.clone().unwrap_or_default();
    if before == status.phase {
        return None;
    }
    match status.phase {
        Some(LocalPhase::Disconnected) => {
            let note = format!("the connection of {} is lost", session.user);
            Some(News::warning("Connect", "TunnelLost", note))
        }
        Some(LocalPhase::Failed) => {
            let refused = status.conditions.iter().find(|it| it.type_ == types::ACCEPTED);
            let note = refused.map(|it| it.message.clone()).unwrap_or_default();
            Some(News::warning("Validate", "Refused", note))
        }
        _ => None,
    }
}
