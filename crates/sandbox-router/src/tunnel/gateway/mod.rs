//! The gateway: where agents knock, and from where requests go to them.
//!
//! The one entry point of a router is [`Gateway`]:
//!
//! ```no_run
//! # use std::{future::Future, pin::Pin, sync::Arc};
//! # use sandbox_router::tunnel::{Times, Workload, gateway::{Authority, Gateway, Grant, Refused}};
//! # struct Anybody;
//! # impl Authority for Anybody {
//! #     fn check(&self, _: String, _: Workload) -> Pin<Box<dyn Future<Output = Result<Grant, Refused>> + Send>> {
//! #         Box::pin(async { Err(Refused::Absent) })
//! #     }
//! # }
//! # async fn example() -> std::io::Result<()> {
//! let gateway = Gateway::new(Arc::new(Anybody), Times::default());
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8443").await?;
//! let stop = tokio_util::sync::CancellationToken::new();
//! // Agents knock here: with TLS, or without it from this very host (that is how a port-forward arrives).
//! tokio::spawn(gateway.clone().serve(listener, None, stop));
//! // A request for a workload goes like this; see also `connect` for bytes.
//! let request = http::Request::get("http://cart/").body(http_body_util::Empty::new()).unwrap();
//! let answer = gateway.request(&Workload::new("shop", "cart-local"), 8080, request).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Gateway::sessions`] tells who is connected and [`Gateway::changes`] when that changes: the router writes the status of
//! the workloads from it.

mod admit;
mod failure;
mod knock;
mod locals;
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
pub use self::{admit::Holder, failure::Failure};
use super::{PortReport, Times, Workload};

/// How many requests wait for one agent that is coming back.
const QUEUE: usize = 64;

/// Why everybody has to leave.
const ENDS: &str = "the router ends, and its agents go to another one";

/// Who decides whether somebody may connect: in a cluster, the API server.
pub trait Authority: Send + Sync + 'static {
    /// Whom a token belongs to, and whether they may serve this workload.
    fn check(
        &self,
        token: String,
        workload: Workload,
    ) -> Pin<Box<dyn Future<Output = Result<Grant, Refused>> + Send>>;
}

/// Somebody may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who it is.
    pub user: String,
    /// How long the workload waits for them after they are gone.
    pub grace: Duration,
    /// The greatest epoch that was ever seen of this workload, by any gateway.
    pub epoch: u64,
    /// Who had it with that epoch, at whichever gateway, and has it still or is expected back.
    pub holder: Option<Holder>,
}

/// Somebody who was connected before a gateway was started anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// For which workload.
    pub workload: Workload,
    /// Who.
    pub holder: Holder,
    /// The version of their agent.
    pub agent_version: String,
    /// The epoch they had.
    pub epoch: u64,
    /// Since when they were connected.
    pub since: SystemTime,
    /// How long they are waited for.
    pub grace: Duration,
}

/// Somebody may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The token is nobody's, or no longer.
    #[error("the token is not valid: {0}")]
    Unauthenticated(String),
    /// They may not.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such workload.
    #[error("there is no such LocalWorkload")]
    Absent,
    /// Nobody can say now.
    #[error("cannot be checked now: {0}")]
    Unknown(String),
}

/// Where a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// An agent serves it.
    Connected,
    /// Its agent is gone, and may come back.
    Reconnecting,
    /// Its agent did not come back.
    Disconnected,
}

/// One workload, as a router sees it.
#[derive(Debug, Clone)]
pub struct View {
    /// Which one.
    pub workload: Workload,
    /// Where it is.
    pub phase: Phase,
    /// Why it is not connected.
    pub why: Option<String>,
    /// The process of the agent.
    pub session: String,
    /// Its user.
    pub user: String,
    /// Its version.
    pub agent_version: String,
    /// Counts the connections of the workload; the greatest one is the only one that gets requests.
    pub epoch: u64,
    /// Since when it is connected.
    pub since: SystemTime,
    /// How long ago something was heard of it.
    pub silent_for: Duration,
    /// How long the last PING took.
    pub rtt: Option<Duration>,
    /// Bytes from the agent, and to it.
    pub bytes: (u64, u64),
    /// What it says of its ports.
    pub ports: Vec<PortReport>,
}

/// Accepts agents, and sends requests to them.
pub struct Gateway {
    authority: Arc<dyn Authority>,
    times: Times,
    registry: Registry,
    plain_from_anywhere: bool,
    retired: CancellationToken,
    tasks: TaskTracker,
}

impl Gateway {
    /// A gateway that nobody is connected to yet.
    pub fn new(authority: Arc<dyn Authority>, times: Times) -> Arc<Self> {
        Arc::new(Self::build(authority, times, false))
    }

    /// The same, which takes connections without TLS from everywhere: tokens then travel in the clear.
    pub fn without_tls(authority: Arc<dyn Authority>, times: Times) -> Arc<Self> {
        Arc::new(Self::build(authority, times, true))
    }

    fn build(authority: Arc<dyn Authority>, times: Times, plain_from_anywhere: bool) -> Self {
        let (registry, retired) = (Registry::new(), CancellationToken::new());
        Self { authority, times, registry, plain_from_anywhere, retired, tasks: TaskTracker::new() }
    }

    /// Every workload that an agent was ever connected for.
    pub fn sessions(&self) -> Vec<View> {
        self.registry.views()
    }

    /// One of them.
    pub fn session(&self, workload: &Workload) -> Option<View> {
        self.registry.slot(workload).map(|slot| slot.view())
    }

    /// Counts changes of phase, user, epoch or ports.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }

    /// How often an agent that had been connected, here or elsewhere, came back.
    pub fn reconnects(&self) -> u64 {
        self.registry.reconnects()
    }

    /// The workload is gone, or its sandbox: ends its session. The agent is told why, and ends too.
    pub fn forget(&self, workload: &Workload, why: &str) {
        self.registry.forget(workload, why);
    }

    /// Another gateway has a newer session than the one with this epoch: ends it. The agent is told why, and ends too.
    pub fn give_up(&self, workload: &Workload, epoch: u64, why: &str) {
        self.registry.give_up(workload, epoch, why);
    }

    /// Somebody was connected to this gateway before it was started anew: they are waited for as after any loss. Has no
    /// effect if an agent has been there already.
    pub fn expect(&self, expected: &Expected) {
        self.registry.expect(expected);
    }

    /// It will end: nobody else is let in, and every agent is told to go to another gateway at once. Requests that are under
    /// way may finish, and those that come wait until it is known where the agent went.
    pub fn retire(&self) {
        self.retired.cancel();
        self.registry.send_away(ENDS);
    }
}
