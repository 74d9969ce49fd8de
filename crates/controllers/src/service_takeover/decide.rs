//! Decides the next takeover step of a Service. Pure.

use std::{collections::BTreeMap, time::Duration};

use capt_kinds::api::names::FIELD_MANAGER;
use k8s_openapi::api::core::v1::Service;
use sandbox::service::is_taken_over;
use serde_json::Value;

use super::{
    WRITE_REQUEUE,
    build::{self, RevertHistory},
    dereference::TakeoverInputs,
};

/// How long no router may be ready before Services are restored.
pub(super) const ROUTER_GRACE_PERIOD: Duration = Duration::from_secs(5);
/// How often a reverted Service is taken over again before giving up. Bounds a fight with another controller.
pub(super) const ATTEMPTS: u32 = 3;
/// Time without a revert after which the revert count is reset.
pub(super) const REVERT_RESET: Duration = Duration::from_hours(1);

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TakeoverStep {
    /// Nothing to do.
    Idle,
    /// Requeue: another component has to act first.
    Wait(&'static str, Duration),
    /// Create or update the base Service.
    ApplyBaseService(Box<Service>),
    /// Write the listener ports, on which the routers then listen.
    AnnounceListeners(BTreeMap<String, u16>),
    /// Patch the Service to select the routers.
    TakeOver(Value),
    /// Restore the original spec.
    Restore(Value, RestoreReason),
    /// Another client reverted the Service: count it and retry after a backoff.
    YieldToRevert(Box<Service>, Value),
    /// The Service was reverted too often.
    GiveUp(Box<Service>, Value),
    /// Delete the base Service.
    DeleteBaseService(Box<Service>),
}

/// Why a Service is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoreReason {
    /// Routing is no longer requested.
    NotRequested,
    /// No router is ready.
    NoRouter,
}

/// The next step.
pub(super) fn decide(facts: &TakeoverInputs) -> TakeoverStep {
    match (facts.is_requested, is_taken_over(&facts.service)) {
        (true, false) => next_takeover_step(facts),
        (true, true) => next_held_step(facts),
        (false, true) => {
            TakeoverStep::Restore(build::restore_patch(&facts.service), RestoreReason::NotRequested)
        }
        (false, false) => next_cleanup_step(facts),
    }
}

/// The next step of a requested takeover.
fn next_takeover_step(facts: &TakeoverInputs) -> TakeoverStep {
    let TakeoverInputs { service, base_service, .. } = facts;
    let reverts = build::read_reverts(base_service.as_ref());
    if reverts.count > ATTEMPTS {
        return TakeoverStep::Idle;
    }
    let pause = Duration::from_secs(1) * 2_u32.pow(reverts.count.min(8));
    if let Some(since) = facts.since_revert.filter(|since| reverts.count > 0 && *since < pause) {
        return TakeoverStep::Wait("backing off after a revert", pause.saturating_sub(since));
    }
    if facts.router_ports.is_empty() {
        return TakeoverStep::Wait("no router is ready", ROUTER_GRACE_PERIOD);
    }
    let Some(base_service) = base_service.as_ref().filter(|it| build::is_base_service_current(it, service))
    else {
        return TakeoverStep::ApplyBaseService(Box::new(build::base_service(service, &reverts)));
    };
    let listeners = build::allocate_listeners(service, &facts.used_ports);
    if build::announced_listeners(service) != listeners {
        return TakeoverStep::AnnounceListeners(listeners);
    }
    if base_service.spec.as_ref().and_then(|it| it.cluster_ip.as_ref()).is_none()
        || facts.endpoints != facts.base_endpoints
    {
        return TakeoverStep::Wait("the base Service has different endpoints", WRITE_REQUEUE);
    }
    if !facts.router_ports.iter().all(|it| listeners.values().all(|port| it.contains(port))) {
        return TakeoverStep::Wait("not all routers listen yet", WRITE_REQUEUE);
    }
    TakeoverStep::TakeOver(build::takeover_patch(service, &listeners))
}

/// The next step for a Service that is taken over.
fn next_held_step(facts: &TakeoverInputs) -> TakeoverStep {
    let TakeoverInputs { service, base_service, .. } = facts;
    let reverts = build::read_reverts(base_service.as_ref());
    if !build::is_intact(service)
        || build::allocate_listeners(service, &facts.used_ports) != build::announced_listeners(service)
    {
        return revert_step(facts, &reverts);
    }
    if base_service.as_ref().is_none_or(|it| !build::is_base_service_current(it, service)) {
        return TakeoverStep::ApplyBaseService(Box::new(build::base_service(service, &reverts)));
    }
    if reverts.count > 0 && reverts.is_older_than(facts.now, REVERT_RESET) {
        return TakeoverStep::ApplyBaseService(Box::new(build::base_service(
            service,
            &RevertHistory::default(),
        )));
    }
    match facts.without_router {
        Some(since) if since >= ROUTER_GRACE_PERIOD => {
            TakeoverStep::Restore(build::restore_patch(service), RestoreReason::NoRouter)
        }
        Some(since) => TakeoverStep::Wait("no router is ready", ROUTER_GRACE_PERIOD.saturating_sub(since)),
        None => TakeoverStep::Idle,
    }
}

/// The Service was reverted, manually or by a tool. Its current spec is its owner's intent.
fn revert_step(facts: &TakeoverInputs, before: &RevertHistory) -> TakeoverStep {
    let service = &facts.service;
    let by =
        build::last_foreign_manager(service, FIELD_MANAGER).unwrap_or_else(|| "an unknown client".to_owned());
    let reverts = RevertHistory { count: before.count + 1, by, at: Some(facts.now) };
    let (base_service, given_back) =
        (Box::new(build::base_service(service, &reverts)), build::restore_patch(service));
    if reverts.count > ATTEMPTS {
        TakeoverStep::GiveUp(base_service, given_back)
    } else {
        TakeoverStep::YieldToRevert(base_service, given_back)
    }
}

/// Cleanup of a Service that is neither requested nor taken over.
fn next_cleanup_step(facts: &TakeoverInputs) -> TakeoverStep {
    let has_listeners = !build::announced_listeners(&facts.service).is_empty();
    match &facts.base_service {
        _ if has_listeners => TakeoverStep::AnnounceListeners(BTreeMap::new()),
        Some(base_service) => TakeoverStep::DeleteBaseService(Box::new(base_service.clone())),
        None => TakeoverStep::Idle,
    }
}
