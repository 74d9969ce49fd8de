//! Whether the routers have the routes of a Sandbox or a group.

use capt_kinds::sandbox::conditions::{reasons, types};

use super::{OwnerRoutes, Routes, UnroutedReason, UnroutedService};
use crate::condition::ConditionUpdate;

/// A router, observed by its Lease and its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterObservation {
    /// The namespace that it serves.
    pub namespace: String,
    /// Name of its pod.
    pub name: String,
    /// Whether its pod is ready.
    pub ready: bool,
    /// The applied revision, from its Lease.
    pub revision: Option<String>,
}

/// Whether the routers have the routes of a Sandbox or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgrammingStatus {
    /// The condition `RoutesProgrammed`.
    pub condition: ConditionUpdate,
    /// How many of the ready routers have them, as `2/2`.
    pub routers: String,
    /// Digest of the programmed routes, to be stored in the status.
    pub digest: Option<String>,
}

/// Determines whether the routers have the routes of a Sandbox or a group. `before` is the digest stored in the status: unchanged
/// routes stay programmed while the table changes because of other Sandboxes.
pub fn programming_status(
    own: &OwnerRoutes,
    routes: &Routes,
    seen: &[RouterObservation],
    before: Option<&str>,
) -> ProgrammingStatus {
    let answer = |finding, count: (usize, usize), digest: bool| ProgrammingStatus {
        condition: finding,
        routers: format!("{}/{}", count.0, count.1),
        digest: digest.then(|| own.digest.clone()),
    };
    let kind = types::ROUTES_PROGRAMMED;
    if let Some(older) = &own.key_holder {
        let why = format!("routing key {} is held by the older {older}", own.key);
        return answer(ConditionUpdate::no(kind, reasons::ROUTING_KEY_CONFLICT, why), (0, 0), false);
    }
    if own.routes == 0 {
        return answer(ConditionUpdate::yes(kind, reasons::NONE, "there is nothing to route"), (0, 0), true);
    }
    let serving: Vec<_> = seen
        .iter()
        .filter(|it| it.ready && own.services().any(|(namespace, _)| namespace == it.namespace))
        .collect();
    let behind: Vec<_> =
        serving.iter().filter(|it| !has_routes(it, own, routes)).map(|it| &*it.name).collect();
    let count = (serving.len() - behind.len(), serving.len());
    if let Some(finding) = no_router_condition(own, &serving)
        .or_else(|| unrouted_condition(own))
        .or_else(|| opaque_condition(own))
    {
        return answer(finding, count, false);
    }
    if behind.is_empty() || before == Some(own.digest.as_str()) {
        return answer(ConditionUpdate::yes(kind, reasons::PROGRAMMED, opaque_note(own)), count, true);
    }
    let why = format!("{} of {} routers have the routes; {} not yet", count.0, count.1, behind.join(", "));
    answer(ConditionUpdate::no(kind, reasons::ROUTERS_BEHIND, why), count, false)
}

/// Whether a router has the routes, in the newest table or an earlier one.
fn has_routes(seen: &RouterObservation, own: &OwnerRoutes, routes: &Routes) -> bool {
    let RouterObservation { namespace, revision: Some(revision), .. } = seen else { return false };
    let part = || own.namespace_digests.get(namespace).copied();
    routes.revisions.get(namespace) == Some(revision)
        || part().is_some_and(|it| routes.history.had_routes(namespace, revision, it))
}

/// A namespace without a ready router; reports whether the router is bypassed.
fn no_router_condition(own: &OwnerRoutes, serving: &[&RouterObservation]) -> Option<ConditionUpdate> {
    let (without, _) = own.services().find(|(it, _)| serving.iter().all(|router| router.namespace != *it))?;
    let bypassed =
        own.unrouted.iter().find(|it| it.namespace == without && it.reason == UnroutedReason::HasBaseService);
    Some(match bypassed {
        Some(UnroutedService { name, .. }) => {
            let why = format!(
                "no router is ready in namespace {without}: traffic of {name} bypasses the router until one is"
            );
            ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::ROUTER_BYPASSED, why)
        }
        None => {
            let why = format!("no router is ready in namespace {without}");
            ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::NO_ROUTERS, why)
        }
    })
}

/// A Service whose traffic does not go through the router. Causes that need manual action come first.
fn unrouted_condition(own: &OwnerRoutes) -> Option<ConditionUpdate> {
    let comes_by_itself =
        |it: &&UnroutedService| matches!(it.reason, UnroutedReason::Pending | UnroutedReason::HasBaseService);
    let first = own.unrouted.iter().find(|it| !comes_by_itself(it)).or_else(|| own.unrouted.first())?;
    let (reason, why) = first.condition_reason();
    Some(ConditionUpdate::no(types::ROUTES_PROGRAMMED, reason, why))
}

/// A Service none of whose ports is inspected, so that no key is found there.
fn opaque_condition(own: &OwnerRoutes) -> Option<ConditionUpdate> {
    let is_opaque = |(namespace, name): &(&str, &str)| {
        let mut ports = own.backends.iter().map(|(at, _)| at);
        ports.all(|it| (it.namespace(), it.name()) != (*namespace, *name) || own.opaque_ports.contains(it))
    };
    let (namespace, name) = own.services().find(is_opaque)?;
    let why = format!(
        "the appProtocol of the ports of {namespace}/{name} is not HTTP: a router forwards their traffic to the baseline \
         without inspecting it, and finds no routing key"
    );
    Some(ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::L7_UNAVAILABLE, why))
}

/// Note on uninspected ports for a True condition.
fn opaque_note(own: &OwnerRoutes) -> String {
    if own.opaque_ports.is_empty() {
        return String::new();
    }
    let ports: Vec<_> = own.opaque_ports.iter().map(ToString::to_string).collect();
    format!(
        "{}: {} is forwarded to the baseline without inspection",
        reasons::L7_UNAVAILABLE,
        ports.join(", ")
    )
}
