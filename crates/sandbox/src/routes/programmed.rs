//! Whether routes are where they should be.

use super::{Own, Routes};
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
    let has = |it: &&&RouterSeen| {
        it.revision.is_some() && it.revision.as_ref() == routes.revisions.get(&it.namespace)
    };
    let count = (serving.iter().filter(has).count(), serving.len());
    if let Some((without, _)) =
        own.services().find(|(it, _)| serving.iter().all(|router| router.namespace != *it))
    {
        let why = format!("no router is ready in the namespace {without}");
        return answer(Finding::no(kind, reasons::NO_ROUTERS, why), count, false);
    }
    if !own.waiting.is_empty() {
        let why = format!("the traffic of {} does not go to the router yet", own.waiting.join(", "));
        return answer(Finding::no(kind, reasons::ROUTERS_BEHIND, why), count, false);
    }
    if count.0 == count.1 || before == Some(own.digest.as_str()) {
        return answer(Finding::yes(kind, reasons::PROGRAMMED, ""), count, true);
    }
    let behind: Vec<_> = serving.iter().filter(|it| !has(it)).map(|it| it.name.as_str()).collect();
    let why = format!("{} of {} routers have the routes; {} not yet", count.0, count.1, behind.join(", "));
    answer(Finding::no(kind, reasons::ROUTERS_BEHIND, why), count, false)
}
