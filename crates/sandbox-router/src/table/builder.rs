//! From parts to a table.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash as _, Hasher},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use super::{
    Revision, Table,
    host::Preview,
    route::{Route, ServicePort},
    rules::{Rule, Workload},
};

/// Takes the parts of a table in any order.
#[derive(Debug, Default, Hash)]
pub struct Builder {
    routes: BTreeMap<ServicePort, Route>,
    previews: BTreeMap<String, Preview>,
    rules: BTreeMap<Workload, Vec<Rule>>,
}

impl Builder {
    /// The route of a service's port, made the first time that it is asked for.
    pub fn entry(&mut self, service: ServicePort, make: impl FnOnce(ServicePort) -> Route) -> &mut Route {
        self.routes.entry(service).or_insert_with_key(|service| make(service.clone()))
    }

    /// A route. One that was there for the same port of the same service is replaced.
    pub fn add(&mut self, route: Route) -> &mut Route {
        let service = route.service().clone();
        self.routes.insert(service.clone(), route);
        self.entry(service, |service| Route::new(service, super::Backend::baseline([])))
    }

    /// A route that was added.
    pub fn get_mut(&mut self, service: &ServicePort) -> Option<&mut Route> {
        self.routes.get_mut(service)
    }

    /// A host name whose requests get a key.
    pub fn preview(&mut self, host: &str, preview: Preview) -> &mut Self {
        self.previews.insert(host.to_ascii_lowercase(), preview);
        self
    }

    /// A key under which somebody else does a workload's work.
    pub fn rule(&mut self, of: Workload, rule: Rule) -> &mut Self {
        self.rules.entry(of).or_default().push(rule);
        self
    }

    /// The same of several keys.
    pub fn rules(&mut self, of: Workload, rules: Vec<Rule>) -> &mut Self {
        self.rules.entry(of).or_default().extend(rules);
        self
    }

    /// The table. Of two routes with the same listener the first in the order of services has it: the others are
    /// reached by their names.
    pub fn build(mut self) -> Table {
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
        Table { revision, routes, listeners, names, previews, rules: rules.into_iter().collect(), keys }
    }
}

/// The first bytes of a hash over everything, in order.
fn revision(parts: &Builder) -> Revision {
    let mut fingerprint = Fingerprint::default();
    parts.hash(&mut fingerprint);
    Revision(fingerprint.finish())
}

/// A hash that is the same in every process and on every machine that routers run on: those of the standard library are
/// not meant to be, and the words of a table are too many to be written as JSON for it each time.
#[derive(Default)]
struct Fingerprint {
    hash: Sha256,
    /// Most parts are a few bytes.
    waiting: Vec<u8>,
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= 4096 {
            self.hash.update(&self.waiting);
            self.waiting.clear();
        }
    }

    fn finish(&self) -> u64 {
        let hash = self.hash.clone().chain_update(&self.waiting).finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        u64::from_be_bytes(first)
    }
}
