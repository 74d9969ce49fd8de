//! Responders with addresses, and unavailable ones.

use std::{
    hash::{Hash, Hasher},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::HeaderValue;
use serde::{Serialize, Serializer};

/// Kind of responder; a metrics label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponderKind {
    /// The baseline service.
    Baseline,
    /// A fork of it.
    Fork,
    /// A process on a developer's machine.
    Local,
    /// The baseline service, labelled for a sandbox.
    Virtual,
    /// None; the router responds with an error.
    Unavailable,
}

impl ResponderKind {
    /// All kinds, in order.
    pub const ALL: [Self; 5] = [Self::Baseline, Self::Fork, Self::Local, Self::Virtual, Self::Unavailable];

    /// Metrics label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Fork => "fork",
            Self::Local => "local",
            Self::Virtual => "virtual",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Application protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AppProtocol {
    /// HTTP of either version, detected from the first bytes.
    #[default]
    Http,
    /// HTTP/2 without TLS.
    H2c,
    /// gRPC, which is HTTP/2.
    Grpc,
    /// Opaque bytes.
    Tcp,
}

/// Equivalent addresses, used in rotation.
#[derive(Debug)]
pub struct Backend {
    kind: ResponderKind,
    name: HeaderValue,
    addresses: Box<[SocketAddr]>,
    next: AtomicUsize,
}

impl Backend {
    /// The baseline of a service.
    pub fn baseline(addresses: impl IntoIterator<Item = SocketAddr>) -> Arc<Self> {
        Self::new(ResponderKind::Baseline, HeaderValue::from_static("baseline"), addresses)
    }

    /// The fork of a sandbox.
    pub fn fork(
        namespace: &str,
        sandbox: &str,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Arc<Self> {
        Self::new(ResponderKind::Fork, route_name(&["fork", namespace, sandbox]), addresses)
    }

    fn new(
        kind: ResponderKind,
        name: HeaderValue,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Arc<Self> {
        // Sorted, so that the revision does not depend on the order of discovery.
        let mut addresses = addresses.into_iter().collect::<Vec<_>>();
        addresses.sort_unstable();
        addresses.dedup();
        Arc::new(Self { kind, name, addresses: addresses.into(), next: AtomicUsize::new(0) })
    }

    /// Kind of responder.
    pub fn kind(&self) -> ResponderKind {
        self.kind
    }

    /// Its name in `x-sandbox-route`.
    pub fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// All addresses, sorted.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses, starting with the next in rotation.
    pub fn rotation(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let count = self.addresses.len();
        let first = match count {
            0 | 1 => 0,
            _ => self.next.fetch_add(1, Ordering::Relaxed) % count,
        };
        (0..count).map(move |at| self.addresses[(first + at) % count])
    }
}

impl Hash for Backend {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { kind, name, addresses, next: _ } = self;
        (kind, name, addresses).hash(state);
    }
}

impl Serialize for Backend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (header_text(&self.name), &self.addresses).serialize(serializer)
    }
}

/// A target without a responder; the router responds with this error.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnavailableTarget {
    name: HeaderValue,
    error: HeaderValue,
    message: String,
}

impl UnavailableTarget {
    /// `name` is the route name, `error` the value of `x-sandbox-error`, `message` for humans.
    pub fn new(name: &str, error: &'static str, message: impl Into<String>) -> Self {
        Self { name: route_name(&[name]), error: HeaderValue::from_static(error), message: message.into() }
    }

    /// Two sandboxes of a group override the same service.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new("conflict", "conflict", message)
    }

    /// The fork has no ready pod.
    pub fn unready(namespace: &str, sandbox: &str, message: impl Into<String>) -> Self {
        let name = route_name(&["fork", namespace, sandbox]);
        Self { name, error: HeaderValue::from_static("unready"), message: message.into() }
    }

    /// Its name in `x-sandbox-route`.
    pub fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// Value of `x-sandbox-error`.
    pub fn error(&self) -> &HeaderValue {
        &self.error
    }

    /// Message for humans.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl Serialize for UnavailableTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (header_text(&self.name), header_text(&self.error), &self.message).serialize(serializer)
    }
}

/// Kubernetes names are always valid header values; anything else is replaced.
pub(super) fn route_name(parts: &[&str]) -> HeaderValue {
    HeaderValue::try_from(parts.join("/")).unwrap_or(HeaderValue::from_static("unnamed"))
}

/// A header value as text.
pub(super) fn header_text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}
