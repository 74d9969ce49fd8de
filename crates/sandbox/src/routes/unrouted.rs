//! Whether requests to a Service come to the router, and why not.

use std::collections::HashSet;

use kube::ResourceExt as _;
use sandbox_router::table::ServicePort;

use super::{Objects, index::Index, keys::Claim, matching::members, previews::endpoints};
use crate::{
    api::{RoutingMode, conditions::reasons, names},
    service::{is_taken_over, routing, why_not},
    target::parse,
};

/// A Service whose requests do not come to the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Astray {
    /// Of the Service.
    pub namespace: String,
    /// Of the Service.
    pub name: String,
    /// Why.
    pub why: Why,
}

/// Why the requests to a Service do not come to the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// They will in a moment.
    NotYet,
    /// They did, or nearly so: another Service keeps its selector.
    Kept,
    /// Nobody asked for it.
    NotAsked,
    /// They cannot.
    Cannot(&'static str),
    /// Somebody took the Service back.
    Reverted(String),
}

impl Astray {
    /// For a condition: in one word, and what to do about it.
    pub fn told(&self) -> (&'static str, String) {
        let Self { namespace, name, why } = self;
        match why {
            Why::NotYet | Why::Kept => (
                reasons::ROUTERS_BEHIND,
                format!("the traffic of {namespace}/{name} does not go to the router yet"),
            ),
            Why::NotAsked => {
                let text = format!(
                    "the traffic of {namespace}/{name} does not go to the router, so its key leads nowhere; kubectl -n \
                     {namespace} annotate service {name} {}=enabled",
                    names::ROUTING_ANNOTATION
                );
                (reasons::NOT_ROUTED, text)
            }
            Why::Cannot(why) => {
                let text = format!("the traffic of {namespace}/{name} cannot go to the router: {why}");
                (reasons::NOT_ROUTED, text)
            }
            Why::Reverted(who) => {
                let text = format!(
                    "{who} took {namespace}/{name} back from the router; let it ignore spec.selector and \
                     spec.ports[*].targetPort of this Service"
                );
                (reasons::SERVICE_REVERTED, text)
            }
        }
    }
}

impl Index<'_> {
    /// Why requests to a Service do not come to the router; none if they do.
    pub(super) fn astray(&self, namespace: &str, name: &str) -> Option<Why> {
        let service = self.service(namespace, name).filter(|it| !is_taken_over(it))?;
        if let Some(why) = why_not(service) {
            return Some(Why::Cannot(why));
        }
        let own = service.annotations();
        let is_asked = if own.contains_key(names::ROUTING_ANNOTATION) {
            routing(own).is_some()
        } else {
            self.is_routed(namespace)
        };
        if !is_asked {
            return Some(Why::NotAsked);
        }
        let Some(keeper) = self.keeper(namespace, name) else { return Some(Why::NotYet) };
        let who = keeper.annotations().get(names::REVERTED_BY_ANNOTATION);
        Some(who.map_or(Why::Kept, |it| Why::Reverted(it.clone())))
    }
}

/// Sandboxes whose callers go to the router by themselves, by namespace and name: a group of theirs says so.
pub(super) fn explicit<'a>(objects: &Objects<'a>) -> HashSet<(&'a str, &'a str)> {
    let groups = objects.groups.iter().filter(|it| it.spec.routing.mode == RoutingMode::Explicit);
    let sandboxes = groups.flat_map(|it| members(it, &objects.sandboxes, &objects.namespaces));
    let name = |it: &'a crate::api::Sandbox| {
        (
            it.metadata.namespace.as_deref().unwrap_or_default(),
            it.metadata.name.as_deref().unwrap_or_default(),
        )
    };
    sandboxes.map(name).collect()
}

/// Whether requests under a key come to the router whatever becomes of the Service: callers go there by themselves, or
/// visitors come by the host of an endpoint.
pub(super) fn comes_anyway(claim: &Claim<'_>, at: &ServicePort, explicit: &HashSet<(&str, &str)>) -> bool {
    let owner = &claim.owner;
    let is_explicit = match claim.group {
        Some(group) => group.spec.routing.mode == RoutingMode::Explicit,
        None => explicit.contains(&(owner.namespace.as_str(), owner.name.as_str())),
    };
    let leads_there = |target: &str| {
        let target = parse(target);
        target.is_some_and(|it| it.namespace == at.namespace() && it.service == at.name())
    };
    is_explicit || endpoints(claim).iter().any(|it| leads_there(&it.target))
}
