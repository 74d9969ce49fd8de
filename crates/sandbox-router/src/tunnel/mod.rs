//! The tunnel between a router and a developer's machine.
//!
//! The agent on the machine dials out (no port of it is open), says who it is in one HTTP/1.1 upgrade, and from then on
//! the roles are reversed: it is the HTTP/2 **server**, and the gateway in the router sends it requests.
//!
//! | part | is |
//! |---|---|
//! | [`gateway`] | accepts agents, knows who holds which workload, sends them requests |
//! | [`agent`] | dials out, stays connected, hands requests to what its own command line named |
//! | `hello` | what an agent says of itself, and its mappings |
//! | `line` | one connection: what it has heard, whether it lives, how wide its windows are |
//! | `wiretap` | what a connection runs over: counted, and never deaf because it cannot speak |
//! | `body`, `stream` | bodies and byte streams over HTTP/2 |
//!
//! HTTP ports get ordinary requests, trailers included. Everything else (`tcp` ports, upgrades such as WebSocket) is a
//! CONNECT, and bytes from there on. Each stream has a window of its own and the connection has room for all of them, so
//! that one reader who stalls takes nothing away from the others.

pub mod agent;
mod body;
mod clock;
pub mod gateway;
mod hello;
mod line;
mod stream;
mod times;
mod wire;
mod wiretap;

use std::{fmt, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

pub use self::{
    body::Incoming,
    hello::{BadMapping, Mapping, Protocol},
    stream::Stream,
    times::Times,
    wire::PortReport,
};

/// Where a router listens for agents, if nobody says otherwise.
pub const PORT: u16 = 8446;

/// How many requests an agent serves at once.
pub const STREAMS: u32 = 256;

/// The name of a `LocalWorkload`: `namespace/name`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload(Arc<str>);

impl Workload {
    /// The workload of this name in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Where it is.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// What it is called there.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    /// Both in one.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a tunnel runs over: a socket, TLS on one, or a port-forward.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// One of them, whichever it is.
pub type BoxIo = Box<dyn Io>;
