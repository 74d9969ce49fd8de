//! The route table: for each port of a routed service its baseline, and for each routing key the override.
//!
//! Contract: a table is built once by [`Builder`] and is immutable. Equal contents have equal revisions on every
//! machine. A lookup takes a constant number of hash lookups and does not allocate. The table is independent of
//! Kubernetes: it contains names, addresses and keys.

mod backend;
mod builder;
mod host_name;
mod local_target;
mod route;
mod route_metrics;
mod rules;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    net::SocketAddr,
    sync::Arc,
};

use serde::{Serialize, Serializer};

pub use self::{
    backend::{AppProtocol, Backend, ResponderKind, UnavailableTarget},
    builder::RouteTableBuilder,
    host_name::{Preview, short_service_name},
    local_target::{DisconnectedPolicy, FallThrough, LocalTarget, ResponseCondition, SessionGateway},
    route::{Route, RoutingKey, ServicePort, Target},
    route_metrics::{BUCKETS, MetricsSnapshot, RouteMetrics},
    rules::{BaselineWorkload, Destination, PortMapping, RoutingRule},
};

/// Content hash, equal on every machine for equal contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TableRevision(u64);

impl fmt::Display for TableRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for TableRevision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// All routes of a router.
#[derive(Debug, Default)]
pub struct RouteTable {
    revision: TableRevision,
    /// In service order.
    routes: Vec<Arc<Route>>,
    listeners: HashMap<u16, Arc<Route>>,
    /// By `service.namespace`; the few ports of a service are searched linearly.
    names: HashMap<Box<str>, Vec<Arc<Route>>>,
    previews: HashMap<Box<str>, Preview>,
    rules: HashMap<BaselineWorkload, Vec<RoutingRule>>,
    /// All keys with an override on any route.
    keys: HashSet<RoutingKey>,
}

impl RouteTable {
    /// A builder for a table.
    pub fn builder() -> RouteTableBuilder {
        RouteTableBuilder::default()
    }

    /// Content hash of the table.
    pub fn revision(&self) -> TableRevision {
        self.revision
    }

    /// All routes, in service order.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// The route of a router port.
    pub fn route_at_port(&self, listen: u16) -> Option<&Arc<Route>> {
        self.listeners.get(&listen)
    }

    /// Router ports and their routes.
    pub fn listeners(&self) -> impl Iterator<Item = (u16, &Arc<Route>)> {
        self.listeners.iter().map(|(port, route)| (*port, route))
    }

    /// The route of a service port.
    pub fn route(&self, namespace: &str, service: &str, port: u16) -> Option<&Arc<Route>> {
        let of = |route: &&Arc<Route>| {
            let own = route.service();
            (own.namespace(), own.name(), own.port()) == (namespace, service, port)
        };
        let at = self.routes.binary_search_by(|route| {
            let own = route.service();
            (own.namespace(), own.name(), own.port()).cmp(&(namespace, service, port))
        });
        self.routes.get(at.ok()?).filter(of)
    }

    /// The route for a `Host`: `cart.shop`, `cart.shop.svc`, `cart.shop.svc.cluster.local`, each with or without a
    /// port. Without one it is port 80, or the only port of the service.
    pub fn route_by_host(&self, host: &str) -> Option<&Arc<Route>> {
        let (name, port) = host_name::split_port(host);
        let ports = self.names.get(short_service_name(name))?;
        let wanted = port.unwrap_or(80);
        let exact = ports.iter().find(|route| route.service().port() == wanted);
        exact.or_else(|| ports.first().filter(|_| port.is_none() && ports.len() == 1))
    }

    /// The preview for a `Host`, and its route.
    pub fn preview_by_host(&self, host: &str) -> Option<(&Preview, &Arc<Route>)> {
        if self.previews.is_empty() {
            return None;
        }
        let (name, _) = host_name::split_port(host);
        let preview = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.previews.get(name.to_ascii_lowercase().as_str())
        } else {
            self.previews.get(name)
        }?;
        let to = preview.service();
        Some((preview, self.route(to.namespace(), to.name(), to.port())?))
    }

    /// The hosts of previews.
    pub fn previews(&self) -> impl Iterator<Item = (&str, &Preview)> {
        self.previews.iter().map(|(host, preview)| (host.as_ref(), preview))
    }

    /// Takes over the metrics of the previous table. Must be called before the table is used.
    pub fn inherit_metrics(&self, before: &Self) {
        for route in &self.routes {
            let own = route.service();
            if let Some(older) = before.route(own.namespace(), own.name(), own.port()) {
                route.inherit_metrics(older);
            }
        }
    }

    /// Routing rules of all workloads, for queue consumers.
    pub fn all_rules(&self) -> impl Iterator<Item = (&BaselineWorkload, &[RoutingRule])> {
        self.rules.iter().map(|(workload, rules)| (workload, rules.as_slice()))
    }

    /// Routing rules of a workload: the keys that other consumers handle.
    pub fn rules(&self, of: &BaselineWorkload) -> &[RoutingRule] {
        self.rules.get(of).map_or(&[], Vec::as_slice)
    }

    /// Whether any route has an override for a key.
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Number of overrides over all routes.
    pub fn override_count(&self) -> usize {
        self.routes.iter().map(|route| route.overrides().len()).sum()
    }

    /// All addresses in use: connections to others can be dropped.
    pub fn addresses(&self) -> HashSet<SocketAddr> {
        let of = |route: &Arc<Route>| {
            let own = route.baseline().addresses().to_vec();
            let others = route.overrides().values().filter_map(Target::backend);
            own.into_iter().chain(others.flat_map(|it| it.addresses().to_vec())).collect::<Vec<_>>()
        };
        self.routes.iter().flat_map(of).collect()
    }
}
