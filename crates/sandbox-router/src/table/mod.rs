//! The route table: for every port of a routed service its baseline, and for every routing key what answers instead.
//!
//! Contract: a table is made once by [`Builder`] and never changes. Equal contents give equal revisions on every machine.
//! Looking a request up costs a constant number of hash look-ups and allocates nothing. What fills the table knows
//! Kubernetes; the table knows names, addresses and keys.

mod backend;
mod build;
mod host;
mod local;
mod meter;
mod route;
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
    backend::{AppProtocol, Backend, Kind, Unavailable},
    build::Builder,
    host::{Preview, short},
    local::{Before, Gateway, Local, Otherwise, When},
    meter::{BUCKETS, Meter, Reading},
    route::{Key, Route, ServicePort, Target},
    rules::{Destination, Mapping, Rule, Workload},
};

/// What is the same on every machine when the contents are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Revision(u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// All routes of a router.
#[derive(Debug, Default)]
pub struct Table {
    revision: Revision,
    /// In the order of their services.
    routes: Vec<Arc<Route>>,
    listeners: HashMap<u16, Arc<Route>>,
    /// By `service.namespace`; the few ports of a service are looked through.
    names: HashMap<Box<str>, Vec<Arc<Route>>>,
    previews: HashMap<Box<str>, Preview>,
    rules: HashMap<Workload, Vec<Rule>>,
    /// All keys that any route overrides.
    keys: HashSet<Key>,
}

impl Table {
    /// Makes a table.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Equal for equal contents.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// All routes, in the order of their services.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// The route whose requests come in at a port of the router.
    pub fn at(&self, listen: u16) -> Option<&Arc<Route>> {
        self.listeners.get(&listen)
    }

    /// The ports that the router listens at, one for each route that has one.
    pub fn listeners(&self) -> impl Iterator<Item = (u16, &Arc<Route>)> {
        self.listeners.iter().map(|(port, route)| (*port, route))
    }

    /// The route of a service's port.
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

    /// The route that a `Host` names: `cart.shop`, `cart.shop.svc`, `cart.shop.svc.cluster.local`, each with a port or
    /// without one. Without one it is port 80, or the only port that there is.
    pub fn named(&self, host: &str) -> Option<&Arc<Route>> {
        let (name, port) = host::split(host);
        let ports = self.names.get(short(name))?;
        let wanted = port.unwrap_or(80);
        let exact = ports.iter().find(|route| route.service().port() == wanted);
        exact.or_else(|| ports.first().filter(|_| port.is_none() && ports.len() == 1))
    }

    /// The preview that a `Host` names, and the route behind it.
    pub fn preview(&self, host: &str) -> Option<(&Preview, &Arc<Route>)> {
        if self.previews.is_empty() {
            return None;
        }
        let (name, _) = host::split(host);
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

    /// Takes over the counters of the table before. To be called before the table is used.
    pub fn inherit(&self, before: &Self) {
        for route in &self.routes {
            let own = route.service();
            if let Some(older) = before.route(own.namespace(), own.name(), own.port()) {
                route.inherit(older);
            }
        }
    }

    /// What consumers of all workloads' queues must know.
    pub fn all_rules(&self) -> impl Iterator<Item = (&Workload, &[Rule])> {
        self.rules.iter().map(|(workload, rules)| (workload, rules.as_slice()))
    }

    /// What consumers of a workload's queues must know: which keys somebody else consumes.
    pub fn rules(&self, of: &Workload) -> &[Rule] {
        self.rules.get(of).map_or(&[], Vec::as_slice)
    }

    /// Whether any route has an override for a key.
    pub fn knows(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// How many overrides there are in all routes.
    pub fn overrides(&self) -> usize {
        self.routes.iter().map(|route| route.overrides().len()).sum()
    }

    /// All addresses that are somebody's: connections to all others can be dropped.
    pub fn addresses(&self) -> HashSet<SocketAddr> {
        let of = |route: &Arc<Route>| {
            let own = route.baseline().addresses().to_vec();
            let others = route.overrides().values().filter_map(Target::backend);
            own.into_iter().chain(others.flat_map(|it| it.addresses().to_vec())).collect::<Vec<_>>()
        };
        self.routes.iter().flat_map(of).collect()
    }
}
