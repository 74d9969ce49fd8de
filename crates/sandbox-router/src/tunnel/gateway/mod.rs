//! The gateway: accepts agents and forwards requests to them.
//!
//! [`Gateway`] is the entry point for a router:
//!
//! ```no_run
//! # use std::{future::Future, pin::Pin, sync::Arc};
//! # use sandbox_router::tunnel::{TunnelTimeouts, WorkloadName, gateway::{Authorizer, Gateway, SessionGrant, AuthorizeError}};
//! # struct Anybody;
//! # impl Authorizer for Anybody {
//! #     fn authorize(&self, _: String, _: WorkloadName) -> Pin<Box<dyn Future<Output = Result<SessionGrant, AuthorizeError>> + Send>> {
//! #         Box::pin(async { Err(AuthorizeError::NotFound) })
//! #     }
//! # }
//! # async fn example() -> std::io::Result<()> {
//! let gateway = Gateway::new(Arc::new(Anybody), TunnelTimeouts::default());
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8443").await?;
//! let stop = tokio_util::sync::CancellationToken::new();
//! // Agents connect with TLS, or without it from the same host (as a port-forward does).
//! tokio::spawn(gateway.clone().serve(listener, None, stop));
//! // Sends a request to a workload; `connect` opens a byte stream.
//! let request = http::Request::get("http://cart/").body(http_body_util::Empty::new()).unwrap();
//! let answer = gateway.request(&WorkloadName::new("shop", "cart-local"), 8080, request).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Gateway::sessions`] returns all sessions and [`Gateway::changes`] signals changes: the router writes the status of
//! the workloads from them.

mod admission;
mod error;
mod handshake;
mod local_transport;
mod registry;
mod send;
mod serve;
mod session;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::registry::Registry;
pub use self::{admission::SessionHolder, error::TunnelError};
use super::{PortReport, TunnelTimeouts, WorkloadName};

/// Maximum number of requests that wait for one reconnecting agent.
const MAX_WAITING_REQUESTS: usize = 64;

/// Reason for closing all sessions at shutdown.
const SHUTDOWN_MESSAGE: &str = "the router is shutting down, and its agents connect to another one";

/// Authenticates and authorizes agents: in a cluster, through the API server.
pub trait Authorizer: Send + Sync + 'static {
    /// Returns the user of a token if it may serve this workload.
    fn authorize(
        &self,
        token: String,
        workload: WorkloadName,
    ) -> Pin<Box<dyn Future<Output = Result<SessionGrant, AuthorizeError>> + Send>>;
}

/// The authorization of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGrant {
    /// User name.
    pub user: String,
    /// How long the workload waits for a reconnect.
    pub grace: Duration,
    /// The highest epoch of this workload over all gateways.
    pub epoch: u64,
    /// The holder with that epoch at any gateway, if connected or expected to reconnect.
    pub holder: Option<SessionHolder>,
}

/// A session from before a restart of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedSession {
    /// The workload.
    pub workload: WorkloadName,
    /// The holder.
    pub holder: SessionHolder,
    /// Version of its agent.
    pub agent_version: String,
    /// Its epoch.
    pub epoch: u64,
    /// When it connected.
    pub since: SystemTime,
    /// How long to wait for its reconnect.
    pub grace: Duration,
}

/// An agent is not authorized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizeError {
    /// The token is invalid or expired.
    #[error("the token is not valid: {0}")]
    Unauthenticated(String),
    /// The user is not allowed.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such workload.
    #[error("there is no such LocalWorkload")]
    NotFound,
    /// The check is not possible at the moment.
    #[error("the token cannot be checked: {0}")]
    Unavailable(String),
}

/// Phase of a workload's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPhase {
    /// An agent is connected.
    Connected,
    /// The agent is expected to reconnect.
    Reconnecting,
    /// The agent did not reconnect.
    Disconnected,
}

/// Status of a workload's session.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// The workload.
    pub workload: WorkloadName,
    /// The phase.
    pub phase: SessionPhase,
    /// Why it is not connected.
    pub why: Option<String>,
    /// Session id of the agent process.
    pub session: String,
    /// Its user.
    pub user: String,
    /// Version of the agent.
    pub agent_version: String,
    /// Connection counter of the workload; only the highest epoch gets requests.
    pub epoch: u64,
    /// When it connected.
    pub since: SystemTime,
    /// Time since data was last received.
    pub silent_for: Duration,
    /// Round-trip time of the last PING.
    pub rtt: Option<Duration>,
    /// Bytes received and sent.
    pub bytes: (u64, u64),
    /// Reported ports.
    pub ports: Vec<PortReport>,
}

/// Accepts agents and forwards requests to them.
pub struct Gateway {
    authorizer: Arc<dyn Authorizer>,
    timeouts: TunnelTimeouts,
    registry: Registry,
    allow_remote_plaintext: bool,
    retired: CancellationToken,
    tasks: TaskTracker,
}

impl Gateway {
    /// A gateway without sessions.
    pub fn new(authority: Arc<dyn Authorizer>, times: TunnelTimeouts) -> Arc<Self> {
        Arc::new(Self::build(authority, times, false))
    }

    /// The same, but accepts connections without TLS from any host: tokens then travel in the clear.
    pub fn without_tls(authority: Arc<dyn Authorizer>, times: TunnelTimeouts) -> Arc<Self> {
        Arc::new(Self::build(authority, times, true))
    }

    fn build(
        authorizer: Arc<dyn Authorizer>,
        timeouts: TunnelTimeouts,
        allow_remote_plaintext: bool,
    ) -> Self {
        let (registry, retired) = (Registry::new(), CancellationToken::new());
        Self { authorizer, timeouts, registry, allow_remote_plaintext, retired, tasks: TaskTracker::new() }
    }

    /// Every workload that an agent was ever connected for.
    pub fn sessions(&self) -> Vec<SessionStatus> {
        self.registry.statuses()
    }

    /// The session of a workload.
    pub fn session(&self, workload: &WorkloadName) -> Option<SessionStatus> {
        self.registry.slot(workload).map(|slot| slot.status())
    }

    /// Counts changes of phase, user, epoch or ports.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }

    /// Number of reconnects, including agents that were connected elsewhere before.
    pub fn reconnects(&self) -> u64 {
        self.registry.reconnects()
    }

    /// The workload or its sandbox was deleted: ends its session. The agent is notified and ends too.
    pub fn remove_workload(&self, workload: &WorkloadName, why: &str) {
        self.registry.remove(workload, why);
    }

    /// Another gateway holds a newer session than the one with this epoch: ends it. The agent is notified and ends too.
    pub fn fence_session(&self, workload: &WorkloadName, epoch: u64, why: &str) {
        self.registry.fence_session(workload, epoch, why);
    }

    /// Expects the reconnect of a session from before a restart, as after any connection loss. No effect if an agent is
    /// already connected.
    pub fn expect_session(&self, expected: &ExpectedSession) {
        self.registry.expect_session(expected);
    }

    /// Prepares for shutdown: refuses new agents, and tells every agent to connect to another gateway. Requests in
    /// progress may finish; new ones wait until the agent's new gateway is known.
    pub fn retire(&self) {
        self.retired.cancel();
        self.registry.move_all(SHUTDOWN_MESSAGE);
    }
}
