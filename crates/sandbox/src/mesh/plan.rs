//! Plans the `HTTPRoute` objects of the cluster, and reports whether a mesh accepted them.
//!
//! One plan for the whole cluster: several groups may override the same Service, and its objects contain the keys of all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use capt_kinds::sandbox::{
    RouteGroup, RoutingMode,
    conditions::{reasons, types},
    names,
};
use serde_json::{Value, json};

use super::{MeshPort, assigned_shards, build_shards, foreign_route, has_active_mesh};
use crate::{
    condition::ConditionUpdate,
    digest::sha256,
    routes::{OwnerKind, OwnerRoutes, RouteOwner, RouterObservation, Routes},
};

/// Namespace and name.
pub type NamespacedName = (String, String);

/// The `HTTPRoute` objects of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum HttpRouteListing {
    /// Not listed yet.
    #[default]
    NotListed,
    /// The API server does not serve the kind.
    NotServed,
    /// Those with a Service as parent.
    Listed(Arc<BTreeMap<NamespacedName, Value>>),
}

impl HttpRouteListing {
    fn all(&self) -> impl Iterator<Item = (&NamespacedName, &Value)> {
        match self {
            Self::Listed(all) => Some(all.iter()).into_iter().flatten(),
            Self::NotListed | Self::NotServed => None.into_iter().flatten(),
        }
    }

    fn get(&self, name: &NamespacedName) -> Option<&Value> {
        match self {
            Self::Listed(all) => all.get(name),
            Self::NotListed | Self::NotServed => None,
        }
    }

    /// Whether a mesh accepts the objects.
    fn has_active_mesh(&self) -> bool {
        has_active_mesh(self.all().map(|(_, it)| it))
    }
}

/// A desired `HTTPRoute`.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteShard {
    /// Its namespace and name.
    pub name: NamespacedName,
    /// Digest of its spec, stored in an annotation: the live spec cannot be compared, because the API server adds defaults.
    pub digest: String,
    /// The object.
    pub object: Value,
}

/// The desired `HTTPRoute` objects.
#[derive(Debug, Clone, Default)]
pub struct MeshPlan {
    http_routes: HttpRouteListing,
    owners: BTreeSet<RouteOwner>,
    /// The objects of each Service.
    shards: BTreeMap<NamespacedName, Vec<RouteShard>>,
    /// Services that are parents of an unmanaged `HTTPRoute`, with its name.
    foreign_routes: BTreeMap<NamespacedName, String>,
}

impl MeshPlan {
    /// Plans for these groups. The Sandboxes of a mesh-routed group are routed by the mesh too, under their own keys.
    /// `before` is the previous plan, whose objects the watch may not have delivered yet.
    pub fn new(
        table: &Routes,
        groups: &[&RouteGroup],
        routers: &[RouterObservation],
        seen: HttpRouteListing,
        before: Option<&Self>,
    ) -> Self {
        let mut plan = Self { http_routes: seen, ..Self::default() };
        let mut ports: BTreeMap<(NamespacedName, u16), MeshPort> = BTreeMap::new();
        for group in groups {
            let owner = RouteOwner::group(group);
            let Some(own) = table.owners.get(&owner).filter(|own| plan.is_mesh_routed(group, own, routers))
            else {
                continue;
            };
            plan.owners.extend(own.members.iter().filter_map(|it| parse_member(it)));
            plan.owners.insert(owner);
            add_routes(&mut ports, own, &group.spec.routing.custom_headers);
        }
        for owner in plan.owners.iter().filter(|it| it.kind == OwnerKind::Sandbox) {
            if let Some(own) = table.owners.get(owner) {
                add_routes(&mut ports, own, &[]);
            }
        }
        for ((service, _), port) in ports {
            plan.plan_port(service, &port, before);
        }
        plan
    }

    /// Plans the shards of a port, unless its Service has an unmanaged route.
    fn plan_port(&mut self, service: NamespacedName, port: &MeshPort, before: Option<&Self>) {
        let live = || self.http_routes.all().map(|(_, it)| it);
        if let Some(name) = foreign_route(port, live()) {
            self.foreign_routes.insert(service, name);
            return;
        }
        // A plan made before the first list has no valid shard assignment.
        let planned = before.filter(|it| it.is_served()).and_then(|it| it.shards.get(&service));
        let planned = planned.into_iter().flatten().map(|it| &it.object);
        let made = build_shards(port, &assigned_shards(port, planned.chain(live())));
        self.shards.entry(service).or_default().extend(made.into_iter().map(to_shard));
    }

    /// Whether a group is routed by a mesh. Mode `Auto` chooses an active mesh where none of our routers runs; a served kind
    /// without a controller does not count.
    fn is_mesh_routed(&self, group: &RouteGroup, own: &OwnerRoutes, routers: &[RouterObservation]) -> bool {
        match group.spec.routing.mode {
            RoutingMode::GatewayApi => true,
            RoutingMode::Auto => {
                let has_router =
                    |it: &RouterObservation| own.services().any(|(namespace, _)| namespace == it.namespace);
                self.http_routes.has_active_mesh() && !routers.iter().any(has_router)
            }
            RoutingMode::Router | RoutingMode::Explicit => false,
        }
    }

    /// Whether a Sandbox or a group is routed by the mesh.
    pub fn routes_owner(&self, owner: &RouteOwner) -> bool {
        self.owners.contains(owner)
    }

    /// Whether the API server serves `HTTPRoute`.
    pub fn is_served(&self) -> bool {
        matches!(self.http_routes, HttpRouteListing::Listed(_))
    }

    /// Whether the watch has delivered all desired objects and no surplus ones.
    pub fn is_applied(&self) -> bool {
        let is_there =
            |it: &RouteShard| self.live(&it.name).and_then(source_digest) == Some(it.digest.as_str());
        !self.is_served() || (self.desired().all(is_there) && self.surplus().is_empty())
    }

    /// All desired objects.
    pub fn desired(&self) -> impl Iterator<Item = &RouteShard> {
        self.shards.values().flatten()
    }

    /// The live object of this name.
    pub fn live(&self, name: &NamespacedName) -> Option<&Value> {
        self.http_routes.get(name)
    }

    /// Managed objects that are no longer desired.
    pub fn surplus(&self) -> Vec<&Value> {
        let wanted: BTreeSet<&NamespacedName> = self.desired().map(|it| &it.name).collect();
        let rest = self.http_routes.all().filter(|(name, it)| is_managed(it) && !wanted.contains(name));
        rest.map(|(_, it)| it).collect()
    }

    /// The condition `RoutesProgrammed` of a Sandbox or a group; `None` if it is not routed by the mesh.
    pub fn condition_for(&self, owner: &RouteOwner, own: &OwnerRoutes) -> Option<ConditionUpdate> {
        self.routes_owner(owner).then(|| self.programming_condition(own))
    }

    fn programming_condition(&self, own: &OwnerRoutes) -> ConditionUpdate {
        let kind = types::ROUTES_PROGRAMMED;
        match &self.http_routes {
            HttpRouteListing::NotListed => {
                return ConditionUpdate::unknown(kind, reasons::PENDING, "HTTPRoutes are being listed");
            }
            HttpRouteListing::NotServed => {
                let why = "this cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1; install the Gateway API \
                           and a mesh that reads it, or set routing.mode to Router";
                return ConditionUpdate::no(kind, reasons::GATEWAY_API_NOT_SERVED, why);
            }
            HttpRouteListing::Listed(_) => {}
        }
        if let Some(older) = &own.key_holder {
            let why = format!("routing key {} is held by the older {older}", own.key);
            return ConditionUpdate::no(kind, reasons::ROUTING_KEY_CONFLICT, why);
        }
        if own.routes == 0 {
            return ConditionUpdate::yes(kind, reasons::NONE, "there is nothing to route");
        }
        for (namespace, service) in own.services() {
            let at = (namespace.to_owned(), service.to_owned());
            if let Some(theirs) = self.foreign_routes.get(&at) {
                let why = format!(
                    "HTTPRoute {namespace}/{theirs}, not managed by capt, already has Service {service} as its parent; \
                     delete it, or set routing.mode to Router"
                );
                return ConditionUpdate::no(kind, reasons::ROUTE_CONFLICT, why);
            }
            let refused = self.shards.get(&at).into_iter().flatten().find_map(|it| self.pending_reason(it));
            if let Some(why) = refused {
                return ConditionUpdate::no(kind, reasons::ROUTES_NOT_ACCEPTED, why);
            }
        }
        ConditionUpdate::yes(kind, reasons::PROGRAMMED, "")
    }

    /// Why an object is not in effect; `None` if it is.
    fn pending_reason(&self, shard: &RouteShard) -> Option<String> {
        let (namespace, name) = &shard.name;
        let live = self.live(&shard.name).filter(|it| source_digest(it) == Some(shard.digest.as_str()));
        let Some(live) = live else { return Some(format!("HTTPRoute {namespace}/{name} is being written")) };
        let parents = live["status"]["parents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let own = &shard.object["spec"]["parentRefs"][0];
        let is_ours = |it: &&Value| ["kind", "name"].iter().all(|field| it["parentRef"][field] == own[field]);
        let mut of_services = parents.iter().filter(is_ours).peekable();
        if of_services.peek().is_none() {
            return Some(format!("no mesh has reported a status for HTTPRoute {namespace}/{name} yet"));
        }
        let verdicts: Vec<_> =
            of_services.map(|it| parent_rejection(it, &live["metadata"]["generation"])).collect();
        // One accepting mesh is enough.
        if verdicts.iter().any(Option::is_none) {
            return None;
        }
        verdicts.into_iter().flatten().next().map(|why| format!("HTTPRoute {namespace}/{name}: {why}"))
    }
}

/// Why a controller has not accepted this generation of an object; `None` if it has.
fn parent_rejection(parent: &Value, generation: &Value) -> Option<String> {
    let who = parent["controllerName"].as_str().unwrap_or("a mesh");
    let conditions = parent["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |type_: &str| conditions.iter().find(|it| it["type"] == type_);
    let is_old = |it: &Value| it.get("observedGeneration").is_some_and(|seen| seen != generation);
    // `ResolvedRefs` reports missing backends, so both conditions are required.
    let both = [of("Accepted"), of("ResolvedRefs")];
    if both.iter().any(|it| it.is_none_or(is_old)) {
        return Some(format!("not yet observed by {who}"));
    }
    let bad = both.into_iter().flatten().find(|it| it["status"] != "True")?;
    let text = |field: &str| bad[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{who} reports {}=False, {}: {}", text("type"), text("reason"), text("message")))
}

fn parse_member(path: &str) -> Option<RouteOwner> {
    let (namespace, name) = path.split_once('/')?;
    Some(RouteOwner { namespace: namespace.to_owned(), name: name.to_owned(), kind: OwnerKind::Sandbox })
}

/// Adds the routes of a Sandbox or a group.
fn add_routes(ports: &mut BTreeMap<(NamespacedName, u16), MeshPort>, own: &OwnerRoutes, headers: &[String]) {
    // The default rule already leads to the Service itself.
    let others = own.backends.iter().filter(|(at, service)| service.as_deref() != Some(at.name()));
    for (at, service) in others {
        let name = (at.namespace().to_owned(), at.name().to_owned());
        let port = ports.entry((name, at.port())).or_insert_with(|| MeshPort {
            namespace: at.namespace().to_owned(),
            service: at.name().to_owned(),
            port: at.port(),
            ..MeshPort::default()
        });
        port.keys.insert(own.key.clone(), service.clone().map(|it| (it, at.port())));
        port.headers.extend(headers.iter().map(|it| it.to_ascii_lowercase()));
    }
}

fn to_shard(mut object: Value) -> RouteShard {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let name = (text("namespace"), text("name"));
    let digest = sha256(&object["spec"].to_string());
    object["metadata"]["annotations"] = json!({ names::SOURCE_HASH_ANNOTATION: digest });
    RouteShard { name, digest, object }
}

/// The digest in the annotation of an object.
pub fn source_digest(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"].get(names::SOURCE_HASH_ANNOTATION)?.as_str()
}

/// Whether an object is managed by us.
fn is_managed(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    object["metadata"]["labels"].get(names::SERVICE_LABEL).is_some() && name.contains("-sbx-")
}

/// Whether an `HTTPRoute` has a Service as parent, not a Gateway.
pub fn has_service_parent(object: &Value) -> bool {
    let parents = object["spec"]["parentRefs"].as_array().map(Vec::as_slice).unwrap_or_default();
    parents.iter().any(|it| it["kind"] == "Service")
}
