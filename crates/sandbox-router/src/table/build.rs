//! From parts to a table.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::Arc,
};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    Revision, Table,
    host::Preview,
    route::{Route, ServicePort},
    rules::{Rule, Workload},
};

/// Takes the parts of a table in any order.
#[derive(Debug, Default, Serialize)]
pub struct Builder {
    routes: BTreeMap<ServicePort, Route>,
    previews: BTreeMap<String, Preview>,
    #[serde(serialize_with = "pairs")]
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
    let mut hasher = Hasher(Sha256::new());
    // A hasher takes everything, and no name here can fail to be text.
    if let Err(error) = serde_json::to_writer(io::BufWriter::new(&mut hasher), parts) {
        tracing::error!(%error, "the revision of a table is not of all of it");
    }
    let hash = hasher.0.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    Revision(u64::from_be_bytes(first))
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON has no keys of several parts.
fn pairs<S: serde::Serializer>(
    rules: &BTreeMap<Workload, Vec<Rule>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rules)
}
