//! Builds a route table.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash as _, Hasher},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use super::{
    RouteTable, TableRevision,
    host_name::Preview,
    route::{Route, ServicePort},
    rules::{BaselineWorkload, RoutingRule},
};

/// Collects the parts of a table in any order.
#[derive(Debug, Default, Hash)]
pub struct RouteTableBuilder {
    routes: BTreeMap<ServicePort, Route>,
    previews: BTreeMap<String, Preview>,
    rules: BTreeMap<BaselineWorkload, Vec<RoutingRule>>,
}

impl RouteTableBuilder {
    /// The route of a service port, created on first use.
    pub fn entry(&mut self, service: ServicePort, make: impl FnOnce(ServicePort) -> Route) -> &mut Route {
        self.routes.entry(service).or_insert_with_key(|service| make(service.clone()))
    }

    /// Adds a route, replacing an existing one of the same service port.
    pub fn add(&mut self, route: Route) -> &mut Route {
        let service = route.service().clone();
        self.routes.insert(service.clone(), route);
        self.entry(service, |service| Route::new(service, super::Backend::baseline([])))
    }

    /// A route that was added.
    pub fn get_mut(&mut self, service: &ServicePort) -> Option<&mut Route> {
        self.routes.get_mut(service)
    }

    /// Adds a host name whose requests get a key.
    pub fn preview(&mut self, host: &str, preview: Preview) -> &mut Self {
        self.previews.insert(host.to_ascii_lowercase(), preview);
        self
    }

    /// Adds a routing rule: another sandbox handles a workload's messages with a key.
    pub fn rule(&mut self, of: BaselineWorkload, rule: RoutingRule) -> &mut Self {
        self.rules.entry(of).or_default().push(rule);
        self
    }

    /// Adds several routing rules.
    pub fn rules(&mut self, of: BaselineWorkload, rules: Vec<RoutingRule>) -> &mut Self {
        self.rules.entry(of).or_default().extend(rules);
        self
    }

    /// Builds the table. Of two routes with the same listener the first in service order gets it; the others are
    /// reached by host name.
    pub fn build(mut self) -> RouteTable {
        for rules in self.rules.values_mut() {
            rules.sort_by(|a, b| (&a.routing_key, &a.sandbox).cmp(&(&b.routing_key, &b.sandbox)));
        }
        let revision = revision(&self);
        let Self { routes, previews, rules } = self;
        let routes = routes.into_values().map(Arc::new).collect::<Vec<_>>();
        let (mut listeners, mut names) = (HashMap::new(), HashMap::<Box<str>, Vec<_>>::new());
        for route in &routes {
            if let Some(port) = route.listener() {
                listeners.entry(port).or_insert_with(|| Arc::clone(route));
            }
            let name = format!("{}.{}", route.service().name(), route.service().namespace());
            names.entry(name.into()).or_default().push(Arc::clone(route));
        }
        let previews = previews.into_iter().map(|(host, preview)| (host.into(), preview)).collect();
        let keys = routes.iter().flat_map(|route| route.overrides().keys().cloned()).collect();
        RouteTable { revision, routes, listeners, names, previews, rules: rules.into_iter().collect(), keys }
    }
}

/// The first bytes of a hash over all parts, in order.
fn revision(parts: &RouteTableBuilder) -> TableRevision {
    let mut fingerprint = StableHasher::default();
    parts.hash(&mut fingerprint);
    TableRevision(fingerprint.finish())
}

/// A hasher that is stable across processes and machines, which those of the standard library are not. Hashing directly
/// is cheaper than serialising the table to JSON.
#[derive(Default)]
struct StableHasher {
    hash: Sha256,
    /// Most writes are only a few bytes.
    buffered: Vec<u8>,
}

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.buffered.extend_from_slice(bytes);
        if self.buffered.len() >= 4096 {
            self.hash.update(&self.buffered);
            self.buffered.clear();
        }
    }

    fn finish(&self) -> u64 {
        let hash = self.hash.clone().chain_update(&self.buffered).finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        u64::from_be_bytes(first)
    }
}
