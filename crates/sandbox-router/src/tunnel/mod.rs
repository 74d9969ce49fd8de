//! The tunnel between a router and a developer's machine.
//!
//! The agent on the machine dials out (it opens no port), authenticates with one HTTP/1.1 upgrade request, and then the
//! roles are reversed: the agent is the HTTP/2 **server**, and the gateway in the router sends it requests.
//!
//! | part | is |
//! |---|---|
//! | [`gateway`] | accepts agents, tracks which agent holds which workload, forwards requests |
//! | [`agent`] | dials out, stays connected, forwards requests to its configured mappings |
//! | `hello` | the hello of an agent, and its mappings |
//! | `connection_health` | liveness, round-trip time and windows of a connection |
//! | `metered_io` | metered transport that reads ahead while a write is blocked |
//! | `body`, `stream` | bodies and byte streams over HTTP/2 |
//!
//! HTTP ports get ordinary requests with trailers. Everything else (`tcp` ports, upgrades such as WebSocket) is a
//! CONNECT followed by raw bytes. Each stream has its own window, and the connection window covers all of them, so that
//! one stalled reader does not block the others.

pub mod agent;
mod body;
mod clock;
mod connection_health;
pub mod gateway;
mod hello;
mod metered_io;
mod stream;
mod timeouts;
mod wire;

use std::{fmt, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

pub use self::{
    body::TunnelBody,
    hello::{InvalidMapping, LocalMapping, TunnelProtocol},
    stream::TunnelStream,
    timeouts::TunnelTimeouts,
    wire::PortReport,
};

/// Default port of a router for agents.
pub const DEFAULT_PORT: u16 = 8446;

/// Maximum number of concurrent requests per agent.
pub const MAX_CONCURRENT_REQUESTS: u32 = 256;

/// The name of a `LocalWorkload`: `namespace/name`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadName(Arc<str>);

impl WorkloadName {
    /// The workload of this name in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Namespace of the workload.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Name within its namespace.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    /// `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The transport of a tunnel: a socket, TLS on a socket, or a port-forward.
pub trait TunnelIo: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> TunnelIo for T {}

/// A boxed transport.
pub type BoxIo = Box<dyn TunnelIo>;
