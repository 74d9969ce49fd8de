//! Whether requests to a Service reach the router, and why not.

use std::collections::HashSet;

use capt_kinds::{
    grant::Granted,
    sandbox::{RoutingMode, conditions::reasons, names},
};
use kube::ResourceExt as _;
use sandbox_router::table::ServicePort;

use super::{
    RouteObjects, claims::Claim, matching::group_members, previews::claim_endpoints,
    service_index::ServiceIndex,
};
use crate::{
    service::{is_taken_over, takeover_blocker, takeover_mode},
    target::parse_target,
};

/// A Service whose traffic does not go through the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnroutedService {
    /// Of the Service.
    pub namespace: String,
    /// Of the Service.
    pub name: String,
    /// Why.
    pub reason: UnroutedReason,
}

/// Why traffic of a Service does not go through the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnroutedReason {
    /// The takeover has not started yet.
    Pending,
    /// A base Service exists: the takeover is in progress, or the router is bypassed.
    HasBaseService,
    /// Routing is not enabled for the Service.
    NotEnabled,
    /// The Service cannot be taken over.
    Unsupported(&'static str),
    /// This field manager reverted the takeover.
    Reverted(String),
}

impl UnroutedService {
    /// Reason and message of a condition; the message contains the remedy.
    pub fn condition_reason(&self) -> (&'static str, String) {
        let Self { namespace, name, reason: why } = self;
        match why {
            UnroutedReason::Pending | UnroutedReason::HasBaseService => (
                reasons::ROUTERS_BEHIND,
                format!("traffic of {namespace}/{name} does not go through the router yet"),
            ),
            UnroutedReason::NotEnabled => {
                let text = format!(
                    "traffic of {namespace}/{name} does not go through the router, so its key has no effect; run kubectl -n \
                     {namespace} annotate service {name} {}=enabled",
                    names::ROUTING_ANNOTATION
                );
                (reasons::NOT_ROUTED, text)
            }
            UnroutedReason::Unsupported(why) => {
                let text = format!("traffic of {namespace}/{name} cannot go through the router: {why}");
                (reasons::NOT_ROUTED, text)
            }
            UnroutedReason::Reverted(who) => {
                let text = format!(
                    "{who} reverted {namespace}/{name}; configure it to ignore spec.selector and \
                     spec.ports[*].targetPort of this Service"
                );
                (reasons::SERVICE_REVERTED, text)
            }
        }
    }
}

impl ServiceIndex<'_> {
    /// Why traffic of a Service does not go through the router; `None` if it does.
    pub(super) fn unrouted_reason(&self, namespace: &str, name: &str) -> Option<UnroutedReason> {
        let service = self.service(namespace, name).filter(|it| !is_taken_over(it))?;
        if let Some(why) = takeover_blocker(service) {
            return Some(UnroutedReason::Unsupported(why));
        }
        let own = service.annotations();
        let is_asked = if own.contains_key(names::ROUTING_ANNOTATION) {
            takeover_mode(own).is_some()
        } else {
            self.is_namespace_routed(namespace)
        };
        if !is_asked {
            return Some(UnroutedReason::NotEnabled);
        }
        let Some(keeper) = self.base_service(namespace, name) else { return Some(UnroutedReason::Pending) };
        let who = keeper.annotations().get(names::REVERTED_BY_ANNOTATION);
        Some(who.map_or(UnroutedReason::HasBaseService, |it| UnroutedReason::Reverted(it.clone())))
    }
}

/// Sandboxes in a group with mode `Explicit`, whose callers address the router, by namespace and name.
pub(super) fn explicitly_routed<'a>(objects: &RouteObjects<'a>) -> HashSet<(&'a str, &'a str)> {
    let groups = objects.groups.iter().filter(|it| it.spec.routing.mode == RoutingMode::Explicit);
    let sandboxes = groups.flat_map(|it| group_members(it, &objects.sandboxes, &objects.namespaces));
    let name = |it: &'a capt_kinds::sandbox::Sandbox| {
        (
            it.metadata.namespace.as_deref().unwrap_or_default(),
            it.metadata.name.as_deref().unwrap_or_default(),
        )
    };
    sandboxes.map(Granted::into_inner).map(name).collect()
}

/// Whether requests with a key reach the router without a takeover: callers address it explicitly, or use a preview host.
pub(super) fn reaches_router_anyway(
    claim: &Claim<'_>,
    at: &ServicePort,
    explicit: &HashSet<(&str, &str)>,
) -> bool {
    let owner = &claim.owner;
    let is_explicit = match claim.group {
        Some(group) => group.spec.routing.mode == RoutingMode::Explicit,
        None => explicit.contains(&(owner.namespace.as_str(), owner.name.as_str())),
    };
    let leads_there = |target: &str| {
        let target = parse_target(target);
        target.is_some_and(|it| it.namespace == at.namespace() && it.service == at.name())
    };
    is_explicit || claim_endpoints(claim).iter().any(|it| leads_there(&it.target))
}
