//! What is to be done next. Pure.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Service;
use sandbox::service::is_taken_over;
use serde_json::Value;

use super::{
    SOON,
    build::{self, Reverts},
    facts::Facts,
};
use crate::api::names::FIELD_MANAGER;

/// How long there may be no ready router before Services are given back.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often a Service is taken over again that somebody took back. Never fight for ever.
pub(super) const ATTEMPTS: u32 = 3;
/// How long nobody may have taken a Service back before what was is forgotten.
pub(super) const QUIET: Duration = Duration::from_hours(1);

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// All is as it should be.
    Nothing,
    /// Something has to happen elsewhere first.
    Wait(&'static str, Duration),
    /// Make the keeper, or make it right.
    Keep(Box<Service>),
    /// Tell the routers where to listen.
    Announce(BTreeMap<String, u16>),
    /// Send the traffic to the routers.
    Take(Value),
    /// Give the Service back.
    Restore(Value, Why),
    /// Somebody took the Service back: count it, and begin again a while later.
    Reverted(Box<Service>, Value),
    /// Somebody took the Service back too often.
    GiveUp(Box<Service>, Value),
    /// Nobody needs the keeper any more.
    Forget(Box<Service>),
}

/// Why a Service is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its owner wants it.
    Unwanted,
    /// No router is ready.
    NoRouter,
}

/// The next step.
pub(super) fn decide(facts: &Facts) -> Step {
    match (facts.wanted, is_taken_over(&facts.service)) {
        (true, false) => take(facts),
        (true, true) => hold(facts),
        (false, true) => Step::Restore(build::restore(&facts.service), Why::Unwanted),
        (false, false) => leave(facts),
    }
}

/// Towards a Service whose traffic goes to the routers.
fn take(facts: &Facts) -> Step {
    let Facts { service, keeper, .. } = facts;
    let reverts = build::reverts(keeper.as_ref());
    if reverts.count > ATTEMPTS {
        return Step::Nothing;
    }
    let pause = Duration::from_secs(1) * 2_u32.pow(reverts.count.min(8));
    if let Some(since) = facts.since_revert.filter(|since| reverts.count > 0 && *since < pause) {
        return Step::Wait("somebody took it back", pause.saturating_sub(since));
    }
    if facts.routers.is_empty() {
        return Step::Wait("no router is ready", PATIENCE);
    }
    let Some(keeper) = keeper.as_ref().filter(|it| build::keeps(it, service)) else {
        return Step::Keep(Box::new(build::keeper(service, &reverts)));
    };
    let listeners = build::listeners(service, &facts.used);
    if build::announced(service) != listeners {
        return Step::Announce(listeners);
    }
    if keeper.spec.as_ref().and_then(|it| it.cluster_ip.as_ref()).is_none() || facts.own != facts.kept {
        return Step::Wait("the keeper has other endpoints", SOON);
    }
    if !facts.routers.iter().all(|it| listeners.values().all(|port| it.contains(port))) {
        return Step::Wait("not every router listens", SOON);
    }
    Step::Take(build::take(service, &listeners))
}

/// A Service whose traffic goes to the routers, or should.
fn hold(facts: &Facts) -> Step {
    let Facts { service, keeper, .. } = facts;
    let reverts = build::reverts(keeper.as_ref());
    if !build::is_held(service) || build::listeners(service, &facts.used) != build::announced(service) {
        return reverted(facts, &reverts);
    }
    if keeper.as_ref().is_none_or(|it| !build::keeps(it, service)) {
        return Step::Keep(Box::new(build::keeper(service, &reverts)));
    }
    if reverts.count > 0 && reverts.is_over(facts.now, QUIET) {
        return Step::Keep(Box::new(build::keeper(service, &Reverts::default())));
    }
    match facts.without_router {
        Some(since) if since >= PATIENCE => Step::Restore(build::restore(service), Why::NoRouter),
        Some(since) => Step::Wait("no router is ready", PATIENCE.saturating_sub(since)),
        None => Step::Nothing,
    }
}

/// The Service is its owner's again, by hand or by a tool. What it is now is what it is meant to be.
fn reverted(facts: &Facts, before: &Reverts) -> Step {
    let service = &facts.service;
    let by = build::culprit(service, FIELD_MANAGER).unwrap_or_else(|| "somebody".to_owned());
    let reverts = Reverts { count: before.count + 1, by, at: Some(facts.now) };
    let (keeper, given_back) = (Box::new(build::keeper(service, &reverts)), build::restore(service));
    if reverts.count > ATTEMPTS {
        Step::GiveUp(keeper, given_back)
    } else {
        Step::Reverted(keeper, given_back)
    }
}

/// A Service that nobody wants to have routed, and that is not.
fn leave(facts: &Facts) -> Step {
    let has_listeners = !build::announced(&facts.service).is_empty();
    match &facts.keeper {
        _ if has_listeners => Step::Announce(BTreeMap::new()),
        Some(keeper) => Step::Forget(Box::new(keeper.clone())),
        None => Step::Nothing,
    }
}
