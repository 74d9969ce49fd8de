//! What answers at addresses, and what does not answer at all.

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

/// What kind of thing answers; the label of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The service as it is.
    Baseline,
    /// A fork of it.
    Fork,
    /// A process on somebody's desk.
    Local,
    /// The service as it is, for a sandbox that asked to be told apart.
    Virtual,
    /// Nothing; the router answers.
    Unavailable,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Baseline, Self::Fork, Self::Local, Self::Virtual, Self::Unavailable];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Fork => "fork",
            Self::Local => "local",
            Self::Virtual => "virtual",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AppProtocol {
    /// HTTP of either version, found out by looking.
    #[default]
    Http,
    /// HTTP/2 without TLS.
    H2c,
    /// gRPC, which is HTTP/2.
    Grpc,
    /// Bytes.
    Tcp,
}

/// Addresses that answer alike. Requests go to them in turns.
#[derive(Debug)]
pub struct Backend {
    kind: Kind,
    name: HeaderValue,
    addresses: Box<[SocketAddr]>,
    next: AtomicUsize,
}

impl Backend {
    /// The service itself.
    pub fn baseline(addresses: impl IntoIterator<Item = SocketAddr>) -> Arc<Self> {
        Self::new(Kind::Baseline, HeaderValue::from_static("baseline"), addresses)
    }

    /// The fork of a sandbox.
    pub fn fork(
        namespace: &str,
        sandbox: &str,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Arc<Self> {
        Self::new(Kind::Fork, route_name(&["fork", namespace, sandbox]), addresses)
    }

    fn new(kind: Kind, name: HeaderValue, addresses: impl IntoIterator<Item = SocketAddr>) -> Arc<Self> {
        // Sorted, so that the order in which somebody learned them makes no difference.
        let mut addresses = addresses.into_iter().collect::<Vec<_>>();
        addresses.sort_unstable();
        addresses.dedup();
        Arc::new(Self { kind, name, addresses: addresses.into(), next: AtomicUsize::new(0) })
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> Kind {
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

    /// The addresses beginning with the one whose turn it is.
    pub fn turn(&self) -> impl Iterator<Item = SocketAddr> + '_ {
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
        (text(&self.name), &self.addresses).serialize(serializer)
    }
}

/// Nothing answers; the router says why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unavailable {
    name: HeaderValue,
    error: HeaderValue,
    message: String,
}

impl Unavailable {
    /// `error` is the word of `x-sandbox-error`; `message` is for people. `name` is what would have answered.
    pub fn new(name: &str, error: &'static str, message: impl Into<String>) -> Self {
        Self { name: route_name(&[name]), error: HeaderValue::from_static(error), message: message.into() }
    }

    /// Two sandboxes of one group override the same service.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new("conflict", "conflict", message)
    }

    /// The fork has no pod that is ready.
    pub fn unready(namespace: &str, sandbox: &str, message: impl Into<String>) -> Self {
        let name = route_name(&["fork", namespace, sandbox]);
        Self { name, error: HeaderValue::from_static("unready"), message: message.into() }
    }

    /// What would have answered.
    pub fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// The word of `x-sandbox-error`.
    pub fn error(&self) -> &HeaderValue {
        &self.error
    }

    /// For people.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl Serialize for Unavailable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (text(&self.name), text(&self.error), &self.message).serialize(serializer)
    }
}

/// Names are those of Kubernetes objects, which are always fit for a header; anything else is not shown.
pub(super) fn route_name(parts: &[&str]) -> HeaderValue {
    HeaderValue::try_from(parts.join("/")).unwrap_or(HeaderValue::from_static("unnamed"))
}

/// A header's value as text.
pub(super) fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}
