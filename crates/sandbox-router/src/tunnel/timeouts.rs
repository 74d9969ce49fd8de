//! Timeouts and intervals of the tunnel. All are configurable, so that tests can shorten them.

use std::time::Duration;

/// Timeouts and intervals of both sides.
#[derive(Debug, Clone)]
pub struct TunnelTimeouts {
    /// Interval of PINGs.
    pub ping_interval: Duration,
    /// Time without received data after which a connection is dead.
    pub dead_after: Duration,
    /// The same for a suspect connection after a resume.
    pub suspect_timeout: Duration,
    /// Interval at which the gateway rechecks the authorization.
    pub reauthorize_interval: Duration,
    /// How long a request waits for a reconnecting agent.
    pub session_wait: Duration,
    /// How long requests of a superseded connection may continue.
    pub drain_timeout: Duration,
    /// How long a stopping agent may take to tell the gateway.
    pub goodbye_timeout: Duration,
    /// Timeout of the handshake, including the request to the API server.
    pub handshake_timeout: Duration,
    /// Timeout of connecting to the gateway.
    pub dial_timeout: Duration,
    /// Interval after which a parallel connection attempt starts.
    pub redial_interval: Duration,
    /// Initial limit of the reconnect delay.
    pub backoff_initial: Duration,
    /// Maximum reconnect delay while the gateway is unreachable: attempts are cheap, and the path may be back any
    /// moment.
    pub backoff_max_unreachable: Duration,
    /// Maximum reconnect delay while the gateway refuses.
    pub backoff_max_refused: Duration,
    /// Interval at which the agent probes its local targets.
    pub probe_interval: Duration,
}

impl Default for TunnelTimeouts {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(5),
            dead_after: Duration::from_secs(10),
            suspect_timeout: Duration::from_secs(2),
            reauthorize_interval: Duration::from_mins(10),
            session_wait: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(5),
            goodbye_timeout: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(10),
            dial_timeout: Duration::from_secs(5),
            redial_interval: Duration::from_secs(1),
            backoff_initial: Duration::from_millis(200),
            backoff_max_unreachable: Duration::from_secs(1),
            backoff_max_refused: Duration::from_secs(5),
            probe_interval: Duration::from_secs(2),
        }
    }
}
