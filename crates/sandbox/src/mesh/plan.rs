//! Whose routes a mesh shall have, which `HTTPRoute` objects that takes, and whether the mesh took them.
//!
//! One plan for the whole cluster: several groups may override the same Service, and its objects have the keys of all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{Port, foreign, homes, is_live, shards};
use crate::{
    api::{
        RouteGroup, RoutingMode,
        conditions::{reasons, types},
        names,
    },
    condition::Finding,
    digest::sha256,
    routes::{Kind, Own, Owner, RouterSeen, Routes},
};

/// Namespace and name.
pub type Name = (String, String);

/// What is known of the `HTTPRoute` objects of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Seen {
    /// Nobody has looked yet.
    #[default]
    NotYet,
    /// The API server does not know the kind.
    NotServed,
    /// Those that lead from Services.
    All(Arc<BTreeMap<Name, Value>>),
}

impl Seen {
    fn all(&self) -> impl Iterator<Item = (&Name, &Value)> {
        match self {
            Self::All(all) => Some(all.iter()).into_iter().flatten(),
            Self::NotYet | Self::NotServed => None.into_iter().flatten(),
        }
    }

    fn get(&self, name: &Name) -> Option<&Value> {
        match self {
            Self::All(all) => all.get(name),
            Self::NotYet | Self::NotServed => None,
        }
    }

    /// Whether somebody reads the objects.
    fn is_live(&self) -> bool {
        is_live(self.all().map(|(_, it)| it))
    }
}

/// An `HTTPRoute` as it shall be.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// Where it is.
    pub name: Name,
    /// Of its spec; stands in an annotation, because the API server adds to the spec what was left out.
    pub digest: String,
    /// The object.
    pub object: Value,
}

/// What a mesh shall have.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    seen: Seen,
    owners: BTreeSet<Owner>,
    /// The objects of each Service.
    shards: BTreeMap<Name, Vec<Shard>>,
    /// Services from which somebody else's object leads already, with its name.
    foreign: BTreeMap<Name, String>,
}

impl Plan {
    /// For these groups. The sandboxes of a group whose routes are the mesh's are routed by it too, under their own keys.
    /// `before` is the plan of a moment ago: objects may not have been heard of that were written for it.
    pub fn new(
        table: &Routes,
        groups: &[&RouteGroup],
        routers: &[RouterSeen],
        seen: Seen,
        before: Option<&Self>,
    ) -> Self {
        let mut plan = Self { seen, ..Self::default() };
        let mut ports: BTreeMap<(Name, u16), Port> = BTreeMap::new();
        for group in groups {
            let owner = Owner::group(group);
            let Some(own) = table.owners.get(&owner).filter(|own| plan.is_for(group, own, routers)) else {
                continue;
            };
            plan.owners.extend(own.members.iter().filter_map(|it| member(it)));
            plan.owners.insert(owner);
            add(&mut ports, own, &group.spec.routing.custom_headers);
        }
        for owner in plan.owners.iter().filter(|it| it.kind == Kind::Sandbox) {
            if let Some(own) = table.owners.get(owner) {
                add(&mut ports, own, &[]);
            }
        }
        for ((service, _), port) in ports {
            plan.place(service, &port, before);
        }
        plan
    }

    /// Plans the objects of a port, unless somebody else has some.
    fn place(&mut self, service: Name, port: &Port, before: Option<&Self>) {
        let live = || self.seen.all().map(|(_, it)| it);
        if let Some(name) = foreign(port, live()) {
            self.foreign.insert(service, name);
            return;
        }
        // One that was made before anything was known keeps nothing where it is.
        let planned = before.filter(|it| it.is_served()).and_then(|it| it.shards.get(&service));
        let planned = planned.into_iter().flatten().map(|it| &it.object);
        let made = shards(port, &homes(port, planned.chain(live())));
        self.shards.entry(service).or_default().extend(made.into_iter().map(shard));
    }

    /// Whether a mesh shall send requests to the forks of a group. If nobody said, one that is alive does, where none of our
    /// routers is: that the kind is served is not enough, because objects that nobody reads send nobody anywhere.
    fn is_for(&self, group: &RouteGroup, own: &Own, routers: &[RouterSeen]) -> bool {
        match group.spec.routing.mode {
            RoutingMode::GatewayApi => true,
            RoutingMode::Auto => {
                let has_router =
                    |it: &RouterSeen| own.services().any(|(namespace, _)| namespace == it.namespace);
                self.seen.is_live() && !routers.iter().any(has_router)
            }
            RoutingMode::Router | RoutingMode::Explicit => false,
        }
    }

    /// Whether the routes of a sandbox or a group are the mesh's.
    pub fn has(&self, owner: &Owner) -> bool {
        self.owners.contains(owner)
    }

    /// Whether the API server takes such objects.
    pub fn is_served(&self) -> bool {
        matches!(self.seen, Seen::All(_))
    }

    /// Whether all objects are as they shall be, as far as it was heard.
    pub fn is_written(&self) -> bool {
        let is_there = |it: &Shard| self.live(&it.name).and_then(digest) == Some(it.digest.as_str());
        !self.is_served() || (self.wanted().all(is_there) && self.surplus().is_empty())
    }

    /// All objects that shall be there.
    pub fn wanted(&self) -> impl Iterator<Item = &Shard> {
        self.shards.values().flatten()
    }

    /// An object as it is.
    pub fn live(&self, name: &Name) -> Option<&Value> {
        self.seen.get(name)
    }

    /// Objects of ours that nobody wants any more.
    pub fn surplus(&self) -> Vec<&Value> {
        let wanted: BTreeSet<&Name> = self.wanted().map(|it| &it.name).collect();
        let rest = self.seen.all().filter(|(name, it)| is_ours(it) && !wanted.contains(name));
        rest.map(|(_, it)| it).collect()
    }

    /// Whether the mesh has the routes of a sandbox or a group; none if they are not its matter.
    pub fn said(&self, owner: &Owner, own: &Own) -> Option<Finding> {
        self.has(owner).then(|| self.programmed(own))
    }

    fn programmed(&self, own: &Own) -> Finding {
        let kind = types::ROUTES_PROGRAMMED;
        match &self.seen {
            Seen::NotYet => {
                return Finding::unknown(kind, reasons::PENDING, "HTTPRoute objects are being read");
            }
            Seen::NotServed => {
                let why = "this cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1; install the Gateway API \
                           and a mesh that reads it, or set routing.mode to Router";
                return Finding::no(kind, reasons::GATEWAY_API_NOT_SERVED, why);
            }
            Seen::All(_) => {}
        }
        if let Some(older) = &own.older {
            let why = format!("the key {} is that of the older {older}", own.key);
            return Finding::no(kind, reasons::ROUTING_KEY_CONFLICT, why);
        }
        if own.routes == 0 {
            return Finding::yes(kind, reasons::NONE, "there is nothing to route");
        }
        for (namespace, service) in own.services() {
            let at = (namespace.to_owned(), service.to_owned());
            if let Some(theirs) = self.foreign.get(&at) {
                let why = format!(
                    "HTTPRoute {namespace}/{theirs}, which is somebody else's, leads from Service {service} already; \
                     delete it, or set routing.mode to Router"
                );
                return Finding::no(kind, reasons::ROUTE_CONFLICT, why);
            }
            let refused = self.shards.get(&at).into_iter().flatten().find_map(|it| self.refused(it));
            if let Some(why) = refused {
                return Finding::no(kind, reasons::ROUTES_NOT_ACCEPTED, why);
            }
        }
        Finding::yes(kind, reasons::PROGRAMMED, "")
    }

    /// Why an object is not in force, unless it is.
    fn refused(&self, shard: &Shard) -> Option<String> {
        let (namespace, name) = &shard.name;
        let live = self.live(&shard.name).filter(|it| digest(it) == Some(shard.digest.as_str()));
        let Some(live) = live else { return Some(format!("HTTPRoute {namespace}/{name} is being written")) };
        let parents = live["status"]["parents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let own = &shard.object["spec"]["parentRefs"][0];
        let is_ours = |it: &&Value| ["kind", "name"].iter().all(|field| it["parentRef"][field] == own[field]);
        let mut of_services = parents.iter().filter(is_ours).peekable();
        if of_services.peek().is_none() {
            return Some(format!("no mesh has said anything of HTTPRoute {namespace}/{name} yet"));
        }
        let verdicts: Vec<_> = of_services.map(|it| verdict(it, &live["metadata"]["generation"])).collect();
        // One mesh that has it is enough.
        if verdicts.iter().any(Option::is_none) {
            return None;
        }
        verdicts.into_iter().flatten().next().map(|why| format!("HTTPRoute {namespace}/{name}: {why}"))
    }
}

/// What a controller has against an object of this generation, if anything.
fn verdict(parent: &Value, generation: &Value) -> Option<String> {
    let who = parent["controllerName"].as_str().unwrap_or("a mesh");
    let conditions = parent["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |type_: &str| conditions.iter().find(|it| it["type"] == type_);
    let is_old = |it: &Value| it.get("observedGeneration").is_some_and(|seen| seen != generation);
    // A backend that does not exist is said by the second: without it nobody knows that the routes lead anywhere.
    let both = [of("Accepted"), of("ResolvedRefs")];
    if both.iter().any(|it| it.is_none_or(is_old)) {
        return Some(format!("{who} has not looked at it yet"));
    }
    let bad = both.into_iter().flatten().find(|it| it["status"] != "True")?;
    let text = |field: &str| bad[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{who} says {}=False, {}: {}", text("type"), text("reason"), text("message")))
}

fn member(path: &str) -> Option<Owner> {
    let (namespace, name) = path.split_once('/')?;
    Some(Owner { namespace: namespace.to_owned(), name: name.to_owned(), kind: Kind::Sandbox })
}

/// Brings the routes of a sandbox or a group under its key.
fn add(ports: &mut BTreeMap<(Name, u16), Port>, own: &Own, headers: &[String]) {
    // Where the Service itself answers, the route for everybody else leads there already.
    let others = own.backends.iter().filter(|(at, service)| service.as_deref() != Some(at.name()));
    for (at, service) in others {
        let name = (at.namespace().to_owned(), at.name().to_owned());
        let port = ports.entry((name, at.port())).or_insert_with(|| Port {
            namespace: at.namespace().to_owned(),
            service: at.name().to_owned(),
            port: at.port(),
            ..Port::default()
        });
        port.keys.insert(own.key.clone(), service.clone().map(|it| (it, at.port())));
        port.headers.extend(headers.iter().map(|it| it.to_ascii_lowercase()));
    }
}

fn shard(mut object: Value) -> Shard {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let name = (text("namespace"), text("name"));
    let digest = sha256(&object["spec"].to_string());
    object["metadata"]["annotations"] = json!({ names::SOURCE_HASH_ANNOTATION: digest });
    Shard { name, digest, object }
}

/// The digest that an object was written with.
pub fn digest(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"].get(names::SOURCE_HASH_ANNOTATION)?.as_str()
}

/// Whether an object is one of ours.
fn is_ours(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    object["metadata"]["labels"].get(names::SERVICE_LABEL).is_some() && name.contains("-sbx-")
}

/// Whether an `HTTPRoute` is of any concern: it leads from a Service, and not from a gateway.
pub fn concerns_services(object: &Value) -> bool {
    let parents = object["spec"]["parentRefs"].as_array().map(Vec::as_slice).unwrap_or_default();
    parents.iter().any(|it| it["kind"] == "Service")
}
