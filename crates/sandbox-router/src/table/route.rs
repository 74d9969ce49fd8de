//! One port of one service.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, OnceLock},
};

use http::{HeaderName, HeaderValue};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{
    backend::{AppProtocol, Backend, ResponderKind, UnavailableTarget, header_text, route_name},
    local_target::LocalTarget,
    route_metrics::RouteMetrics,
};
use crate::key::{ExtraKeySources, is_key};

/// A routing key: a DNS label. Reference-counted, because every overridden route contains it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutingKey(Arc<str>);

impl RoutingKey {
    /// `None` if the text is not a valid key.
    pub fn parse(text: &str) -> Option<Self> {
        is_key(text).then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RoutingKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for RoutingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A port of a service. Its names are reference-counted: it is cloned for every override.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePort {
    namespace: Arc<str>,
    name: Arc<str>,
    port: u16,
}

impl ServicePort {
    /// The service port, not the target port of its pods.
    pub fn new(namespace: &str, name: &str, port: u16) -> Self {
        Self { namespace: namespace.into(), name: name.into(), port }
    }

    /// Namespace of the service.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The service port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// As `/explain` and metrics write it: `shop/cart:80`.
impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.port)
    }
}

impl Serialize for ServicePort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The override for a routing key.
#[derive(Debug, Clone, Hash)]
pub enum Target {
    /// Pods.
    Backend(Arc<Backend>),
    /// A process on a developer's machine.
    Local(Arc<LocalTarget>),
    /// The baseline service under the name of a sandbox: its pods are those of [`Route::baseline`].
    Virtual(HeaderValue),
    /// No responder is available.
    Unavailable(Arc<UnavailableTarget>),
}

impl Target {
    /// The baseline service, labelled for a sandbox.
    pub fn new_virtual(namespace: &str, sandbox: &str) -> Self {
        Self::Virtual(route_name(&["virtual", namespace, sandbox]))
    }

    /// The backend, if the target has pods of its own.
    pub fn backend(&self) -> Option<&Arc<Backend>> {
        match self {
            Self::Backend(backend) => Some(backend),
            Self::Local(_) | Self::Virtual(_) | Self::Unavailable(_) => None,
        }
    }

    /// Kind of responder.
    pub fn kind(&self) -> ResponderKind {
        match self {
            Self::Backend(backend) => backend.kind(),
            Self::Local(_) => ResponderKind::Local,
            Self::Virtual(_) => ResponderKind::Virtual,
            Self::Unavailable(_) => ResponderKind::Unavailable,
        }
    }

    /// Its name in `x-sandbox-route`.
    pub fn name(&self) -> &HeaderValue {
        match self {
            Self::Backend(backend) => backend.name(),
            Self::Local(local) => local.name(),
            Self::Virtual(name) => name,
            Self::Unavailable(unavailable) => unavailable.name(),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Backend(it) => serializer.serialize_newtype_variant("Target", 0, "backend", it.as_ref()),
            Self::Local(it) => serializer.serialize_newtype_variant("Target", 1, "local", it.as_ref()),
            Self::Unavailable(it) => {
                serializer.serialize_newtype_variant("Target", 2, "unavailable", it.as_ref())
            }
            Self::Virtual(name) => {
                serializer.serialize_newtype_variant("Target", 3, "virtual", header_text(name))
            }
        }
    }
}

/// Routing of one service port.
#[derive(Debug)]
pub struct Route {
    service: ServicePort,
    listen: Option<u16>,
    protocol: AppProtocol,
    key_sources: ExtraKeySources,
    baseline: Arc<Backend>,
    overrides: HashMap<RoutingKey, Target>,
    metrics: OnceLock<Arc<RouteMetrics>>,
}

impl Route {
    /// A route without overrides.
    pub fn new(service: ServicePort, baseline: Arc<Backend>) -> Self {
        Self {
            service,
            listen: None,
            protocol: AppProtocol::default(),
            key_sources: ExtraKeySources::default(),
            baseline,
            overrides: HashMap::new(),
            metrics: OnceLock::new(),
        }
    }

    /// Sets the router port of its listener. Without one it is reached by host name only.
    #[must_use]
    pub fn with_listener(self, port: u16) -> Self {
        Self { listen: Some(port), ..self }
    }

    /// Sets the declared protocol. [`AppProtocol::Tcp`] is passed through without inspection.
    #[must_use]
    pub fn with_protocol(self, protocol: AppProtocol) -> Self {
        Self { protocol, ..self }
    }

    /// Adds a header whose value is a key.
    pub fn add_key_header(&mut self, name: HeaderName) {
        if !self.key_sources.headers.contains(&name) {
            self.key_sources.headers.push(name);
            // Sorted, so that the revision does not depend on the insertion order.
            self.key_sources.headers.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        }
    }

    /// Adds a query parameter whose value is a key.
    pub fn add_key_query(&mut self, name: &str) {
        if !self.key_sources.queries.iter().any(|it| it == name) {
            self.key_sources.queries.push(name.to_owned());
            self.key_sources.queries.sort_unstable();
        }
    }

    /// Sets the override for a key; returns the previous one.
    pub fn set_override(&mut self, key: RoutingKey, target: Target) -> Option<Target> {
        self.overrides.insert(key, target)
    }

    /// The service port.
    pub fn service(&self) -> &ServicePort {
        &self.service
    }

    /// The router port of its listener.
    pub fn listener(&self) -> Option<u16> {
        self.listen
    }

    /// The declared protocol.
    pub fn protocol(&self) -> AppProtocol {
        self.protocol
    }

    /// Key sources in addition to the standard ones.
    pub fn extra_key_sources(&self) -> &ExtraKeySources {
        &self.key_sources
    }

    /// Responder for requests without a known key.
    pub fn baseline(&self) -> &Arc<Backend> {
        &self.baseline
    }

    /// The override for a key, if there is one.
    pub fn target(&self, key: &str) -> Option<&Target> {
        self.overrides.get(key)
    }

    /// Metrics, carried over from previous tables.
    pub fn metrics(&self) -> &Arc<RouteMetrics> {
        self.metrics.get_or_init(Arc::default)
    }

    /// Continues the metrics of a previous route. No effect if metrics were already used.
    pub(super) fn inherit_metrics(&self, from: &Self) {
        self.metrics.get_or_init(|| Arc::clone(from.metrics()));
    }

    /// All overrides, unordered.
    pub fn overrides(&self) -> &HashMap<RoutingKey, Target> {
        &self.overrides
    }
}

/// Content for the revision; metrics are excluded.
impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { service, listen, protocol, key_sources: places, baseline, overrides, metrics: _ } = self;
        (service, listen, protocol, places, baseline).hash(state);
        let mut overrides = overrides.iter().collect::<Vec<_>>();
        overrides.sort_unstable_by_key(|(key, _)| *key);
        overrides.hash(state);
    }
}

impl Serialize for Route {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut route = serializer.serialize_struct("Route", 7)?;
        route.serialize_field("service", &self.service)?;
        route.serialize_field("listen", &self.listen)?;
        route.serialize_field("protocol", &self.protocol)?;
        let headers = self.key_sources.headers.iter().map(HeaderName::as_str).collect::<Vec<_>>();
        route.serialize_field("headers", &headers)?;
        route.serialize_field("queries", &self.key_sources.queries)?;
        route.serialize_field("baseline", self.baseline.as_ref())?;
        // Sorted, for humans.
        route.serialize_field("overrides", &self.overrides.iter().collect::<BTreeMap<_, _>>())?;
        route.end()
    }
}
