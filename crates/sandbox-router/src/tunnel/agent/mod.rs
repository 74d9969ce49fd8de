//! The agent on the developer's machine: dials out and stays connected.
//!
//! It never gives up by itself; [`Agent::watch`] publishes its status. It dials only what it was configured with, never
//! what a peer requests.

mod backoff;
mod connect;
mod forward;
mod gateway_dialer;
mod local_ports;
mod port_probe;
mod suspend_detector;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    backoff::Backoff,
    connect::{AttemptOutcome, ConnectionAttempt},
    local_ports::LocalPorts,
    suspend_detector::SuspendDetector,
};
pub use self::{
    forward::root_cause,
    gateway_dialer::{GatewayDialer, PermanentDialError, TcpDialer, TlsDialer, is_untrusted_certificate},
};
use super::{BoxIo, LocalMapping, PortReport, TunnelTimeouts, WorkloadName};

/// Source of tokens, asked for every connection: cloud tokens expire within minutes.
pub trait TokenSource: Send + Sync + 'static {
    /// The newest token.
    fn token(&self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
}

/// Configuration of an agent.
pub struct AgentConfig {
    /// The workload that it serves.
    pub workload: WorkloadName,
    /// Version sent to the gateway.
    pub version: String,
    /// Unique id of this process.
    pub session: String,
    /// Whether to take over the workload from another user.
    pub takeover: bool,
    /// The only targets it dials.
    pub mappings: Vec<LocalMapping>,
    /// Timeouts and intervals.
    pub times: TunnelTimeouts,
}

/// State of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// Connecting.
    Connecting,
    /// Serving requests.
    Connected,
    /// Waiting before the next attempt.
    Waiting {
        /// Why it is not connected.
        why: String,
        /// The delay.
        pause: Duration,
    },
}

/// Status of an agent.
#[derive(Debug, Clone)]
pub struct AgentStatus {
    /// Its state.
    pub state: AgentState,
    /// Time of the last state change.
    pub since: Instant,
    /// User name, as determined by the gateway.
    pub user: Option<String>,
    /// Epoch of the session.
    pub epoch: u64,
    /// Number of connections so far.
    pub connections: u64,
    /// Number of served requests.
    pub requests: u64,
    /// Round-trip time of the last PING.
    pub rtt: Option<Duration>,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// Why an agent ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The first connection was refused permanently.
    #[error("{0}")]
    Refused(String),
    /// Another agent holds the workload, or the workload was deleted.
    #[error("{0}")]
    Fenced(String),
}

/// A tunnel from this machine to one gateway.
pub struct Agent {
    config: AgentConfig,
    dialer: Arc<dyn GatewayDialer>,
    tokens: Arc<dyn TokenSource>,
    ports: Arc<LocalPorts>,
    status: watch::Sender<AgentStatus>,
}

impl Agent {
    /// An agent that is not running yet.
    pub fn new(config: AgentConfig, dialer: Arc<dyn GatewayDialer>, tokens: Arc<dyn TokenSource>) -> Self {
        let ports = Arc::new(LocalPorts::new(&config.mappings, &config.times));
        let status = watch::Sender::new(AgentStatus {
            state: AgentState::Connecting,
            since: Instant::now(),
            user: None,
            epoch: 0,
            connections: 0,
            requests: 0,
            rtt: None,
            ports: ports.current_reports(),
        });
        Self { config, dialer, tokens, ports, status }
    }

    /// Status updates.
    pub fn watch(&self) -> watch::Receiver<AgentStatus> {
        self.status.subscribe()
    }

    /// Runs until `stop`, or until a permanent error.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), AgentError> {
        let awake = SuspendDetector::new();
        tokio::select! {
            end = self.run_connections(&awake, &stop) => end,
            () = self.ports.run_probes(&self.status, self.config.times.probe_interval) => Ok(()),
            () = awake.run() => Ok(()),
        }
    }

    /// Connects, serves and reconnects.
    async fn run_connections(
        &self,
        awake: &SuspendDetector,
        stop: &CancellationToken,
    ) -> Result<(), AgentError> {
        let times = &self.config.times;
        let mut backoff = Backoff::new(times);
        loop {
            self.set_state(AgentState::Connecting);
            let visit = ConnectionAttempt { agent: self, suspend_detector: awake, stop };
            let ended = Box::pin(visit.run()).await;
            if stop.is_cancelled() {
                return Ok(());
            }
            let why = match ended {
                AttemptOutcome::Stopped => return Ok(()),
                AttemptOutcome::Fenced(why) => return Err(AgentError::Fenced(why)),
                AttemptOutcome::Refused(why) if !self.was_connected() => {
                    return Err(AgentError::Refused(why));
                }
                AttemptOutcome::Refused(why) | AttemptOutcome::RefusedForNow(why) => {
                    backoff.record_refused();
                    why
                }
                AttemptOutcome::Unreachable(why) => {
                    backoff.record_unreachable();
                    why
                }
                AttemptOutcome::Lost(why) => {
                    backoff.reset();
                    why
                }
            };
            let pause = backoff.next_delay();
            self.set_state(AgentState::Waiting { why, pause });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = awake.wait_for_resume() => backoff.reset(),
                // The gateway expects a reconnect: one more attempt tells it that the agent stops.
                () = stop.cancelled() => if !self.was_connected() { return Ok(()) },
            }
        }
    }

    /// Whether a gateway ever accepted it.
    fn was_connected(&self) -> bool {
        self.status.borrow().epoch > 0
    }

    fn set_state(&self, state: AgentState) {
        self.status.send_modify(|view| {
            view.state = state;
            view.since = Instant::now();
            view.rtt = None;
        });
    }
}
