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
    backend::{AppProtocol, Backend, Kind, Unavailable, route_name, text},
    local::Local,
    meter::Meter,
};
use crate::key::{Places, is_key};

/// A routing key: a label of a host name. Shared, because every route that it overrides has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// `None` if the text cannot be a key.
    pub fn parse(text: &str) -> Option<Self> {
        is_key(text).then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A port of a service. Its names are shared: it is copied wherever a key overrides it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePort {
    namespace: Arc<str>,
    name: Arc<str>,
    port: u16,
}

impl ServicePort {
    /// The service's own port, not that of its pods.
    pub fn new(namespace: &str, name: &str, port: u16) -> Self {
        Self { namespace: namespace.into(), name: name.into(), port }
    }

    /// Of the service.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The service's own port.
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

/// What answers requests with a key.
#[derive(Debug, Clone, Hash)]
pub enum Target {
    /// Pods.
    Backend(Arc<Backend>),
    /// A process on somebody's desk.
    Local(Arc<Local>),
    /// The service as it is, under the name of a sandbox: its pods are those of [`Route::baseline`].
    Virtual(HeaderValue),
    /// Nothing does.
    Unavailable(Arc<Unavailable>),
}

impl Target {
    /// The service as it is, for the requests of a sandbox.
    pub fn virtual_of(namespace: &str, sandbox: &str) -> Self {
        Self::Virtual(route_name(&["virtual", namespace, sandbox]))
    }

    /// The pods, if it is pods of its own that answer.
    pub fn backend(&self) -> Option<&Arc<Backend>> {
        match self {
            Self::Backend(backend) => Some(backend),
            Self::Local(_) | Self::Virtual(_) | Self::Unavailable(_) => None,
        }
    }

    /// What kind of thing answers.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Backend(backend) => backend.kind(),
            Self::Local(_) => Kind::Local,
            Self::Virtual(_) => Kind::Virtual,
            Self::Unavailable(_) => Kind::Unavailable,
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
            Self::Virtual(name) => serializer.serialize_newtype_variant("Target", 3, "virtual", text(name)),
        }
    }
}

/// One port of one service: who answers it.
#[derive(Debug)]
pub struct Route {
    service: ServicePort,
    listen: Option<u16>,
    protocol: AppProtocol,
    places: Places,
    baseline: Arc<Backend>,
    overrides: HashMap<Key, Target>,
    meter: OnceLock<Arc<Meter>>,
}

impl Route {
    /// A port of a service that nobody overrides yet.
    pub fn new(service: ServicePort, baseline: Arc<Backend>) -> Self {
        Self {
            service,
            listen: None,
            protocol: AppProtocol::default(),
            places: Places::default(),
            baseline,
            overrides: HashMap::new(),
            meter: OnceLock::new(),
        }
    }

    /// The port of the router where its requests come in. Without one it is reached by its name alone.
    #[must_use]
    pub fn listen(self, port: u16) -> Self {
        Self { listen: Some(port), ..self }
    }

    /// What the service says of its port. With [`AppProtocol::Tcp`] nobody looks at what goes through.
    #[must_use]
    pub fn speaks(self, protocol: AppProtocol) -> Self {
        Self { protocol, ..self }
    }

    /// A header whose value is a key.
    pub fn add_header(&mut self, name: HeaderName) {
        if !self.places.headers.contains(&name) {
            self.places.headers.push(name);
            // The order must not depend on who came first.
            self.places.headers.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        }
    }

    /// A parameter of the query whose value is a key.
    pub fn add_query(&mut self, name: &str) {
        if !self.places.queries.iter().any(|it| it == name) {
            self.places.queries.push(name.to_owned());
            self.places.queries.sort_unstable();
        }
    }

    /// Says who answers requests with a key. Gives back who did before.
    pub fn set(&mut self, key: Key, target: Target) -> Option<Target> {
        self.overrides.insert(key, target)
    }

    /// Which port of which service.
    pub fn service(&self) -> &ServicePort {
        &self.service
    }

    /// The port of the router where its requests come in.
    pub fn listener(&self) -> Option<u16> {
        self.listen
    }

    /// What the service says of its port.
    pub fn protocol(&self) -> AppProtocol {
        self.protocol
    }

    /// Where a key may be beside the usual places.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Who answers requests without a key, and with one that nobody knows.
    pub fn baseline(&self) -> &Arc<Backend> {
        &self.baseline
    }

    /// Who answers requests with a key, if the key is known here.
    pub fn target(&self, key: &str) -> Option<&Target> {
        self.overrides.get(key)
    }

    /// What it has seen, in this table and in those before.
    pub fn meter(&self) -> &Arc<Meter> {
        self.meter.get_or_init(Arc::default)
    }

    /// Goes on counting where another one is. Has no effect on a route that counted already.
    pub(super) fn inherit(&self, from: &Self) {
        self.meter.get_or_init(|| Arc::clone(from.meter()));
    }

    /// All overrides, in no order.
    pub fn overrides(&self) -> &HashMap<Key, Target> {
        &self.overrides
    }
}

/// What a revision is made of; the meter is no part of it.
impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { service, listen, protocol, places, baseline, overrides, meter: _ } = self;
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
        let headers = self.places.headers.iter().map(HeaderName::as_str).collect::<Vec<_>>();
        route.serialize_field("headers", &headers)?;
        route.serialize_field("queries", &self.places.queries)?;
        route.serialize_field("baseline", self.baseline.as_ref())?;
        // In order, for people.
        route.serialize_field("overrides", &self.overrides.iter().collect::<BTreeMap<_, _>>())?;
        route.end()
    }
}
