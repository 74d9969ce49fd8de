//! Whether routes are where they should be.

use super::{Astray, Own, Routes, Why};
use crate::{
    api::conditions::{reasons, types},
    condition::Finding,
};

/// A router, as its Lease and its pod tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterSeen {
    /// The namespace that it serves.
    pub namespace: String,
    /// Of its pod.
    pub name: String,
    /// Whether it takes requests.
    pub ready: bool,
    /// What its Lease says that it applied.
    pub revision: Option<String>,
}

/// Whether the routes of a sandbox or a group are where they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programmed {
    /// For the condition `RoutesProgrammed`.
    pub finding: Finding,
    /// How many of the ready routers have them, as `2/2`.
    pub routers: String,
    /// To be kept in the status: what was programmed.
    pub digest: Option<String>,
}

/// Whether the routes of a sandbox or a group are where they should be. `before` is what was programmed when this was asked
/// last: the table moves on with every other sandbox, and that takes nothing away from routes that did not change.
pub fn programmed(own: &Own, routes: &Routes, seen: &[RouterSeen], before: Option<&str>) -> Programmed {
    let answer = |finding, count: (usize, usize), digest: bool| Programmed {
        finding,
        routers: format!("{}/{}", count.0, count.1),
        digest: digest.then(|| own.digest.clone()),
    };
    let kind = types::ROUTES_PROGRAMMED;
    if let Some(older) = &own.older {
        let why = format!("the key {} is that of the older {older}", own.key);
        return answer(Finding::no(kind, reasons::ROUTING_KEY_CONFLICT, why), (0, 0), false);
    }
    if own.routes == 0 {
        return answer(Finding::yes(kind, reasons::NONE, "there is nothing to route"), (0, 0), true);
    }
    let serving: Vec<_> = seen
        .iter()
        .filter(|it| it.ready && own.services().any(|(namespace, _)| namespace == it.namespace))
        .collect();
    let behind: Vec<_> = serving.iter().filter(|it| !has(it, own, routes)).map(|it| &*it.name).collect();
    let count = (serving.len() - behind.len(), serving.len());
    if let Some(finding) = unserved(own, &serving).or_else(|| astray(own)).or_else(|| opaque(own)) {
        return answer(finding, count, false);
    }
    if behind.is_empty() || before == Some(own.digest.as_str()) {
        return answer(Finding::yes(kind, reasons::PROGRAMMED, unopened(own)), count, true);
    }
    let why = format!("{} of {} routers have the routes; {} not yet", count.0, count.1, behind.join(", "));
    answer(Finding::no(kind, reasons::ROUTERS_BEHIND, why), count, false)
}

/// Whether a router has the routes of a sandbox or a group, in the newest table or in one of before.
fn has(seen: &RouterSeen, own: &Own, routes: &Routes) -> bool {
    let RouterSeen { namespace, revision: Some(revision), .. } = seen else { return false };
    let part = || own.parts.get(namespace).copied();
    routes.revisions.get(namespace) == Some(revision)
        || part().is_some_and(|it| routes.history.had(namespace, revision, it))
}

/// A namespace without a router. If its Services were given back for that, this is said.
fn unserved(own: &Own, serving: &[&RouterSeen]) -> Option<Finding> {
    let (without, _) = own.services().find(|(it, _)| serving.iter().all(|router| router.namespace != *it))?;
    let bypassed = own.astray.iter().find(|it| it.namespace == without && it.why == Why::Kept);
    Some(match bypassed {
        Some(Astray { name, .. }) => {
            let why = format!(
                "no router is ready in the namespace {without}: {name} goes to its own pods until one is"
            );
            Finding::no(types::ROUTES_PROGRAMMED, reasons::ROUTER_BYPASSED, why)
        }
        None => {
            let why = format!("no router is ready in the namespace {without}");
            Finding::no(types::ROUTES_PROGRAMMED, reasons::NO_ROUTERS, why)
        }
    })
}

/// A Service whose requests do not come to the router. What needs a person is said first.
fn astray(own: &Own) -> Option<Finding> {
    let comes_by_itself = |it: &&Astray| matches!(it.why, Why::NotYet | Why::Kept);
    let first = own.astray.iter().find(|it| !comes_by_itself(it)).or_else(|| own.astray.first())?;
    let (reason, why) = first.told();
    Some(Finding::no(types::ROUTES_PROGRAMMED, reason, why))
}

/// A Service none of whose ports is looked into: no key is ever found there.
fn opaque(own: &Own) -> Option<Finding> {
    let is_opaque = |(namespace, name): &(&str, &str)| {
        let mut ports = own.backends.iter().map(|(at, _)| at);
        ports.all(|it| (it.namespace(), it.name()) != (*namespace, *name) || own.opaque.contains(it))
    };
    let (namespace, name) = own.services().find(is_opaque)?;
    let why = format!(
        "the ports of {namespace}/{name} say by their appProtocol that they do not speak HTTP: a router passes what comes \
         on to the baseline unopened, and finds no key"
    );
    Some(Finding::no(types::ROUTES_PROGRAMMED, reasons::L7_UNAVAILABLE, why))
}

/// What is said beside the good news.
fn unopened(own: &Own) -> String {
    if own.opaque.is_empty() {
        return String::new();
    }
    let ports: Vec<_> = own.opaque.iter().map(ToString::to_string).collect();
    format!("{}: {} is passed on to the baseline unopened", reasons::L7_UNAVAILABLE, ports.join(", "))
}
