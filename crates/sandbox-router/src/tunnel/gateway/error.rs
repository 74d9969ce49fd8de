//! Errors of requests to a local workload.

use std::time::Duration;

use http::StatusCode;

/// A request to a local workload failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// No agent is connected or expected: the workload's policy decides.
    #[error("no agent is connected for this workload")]
    Disconnected,
    /// Another gateway holds the session.
    #[error("another router holds the session of this workload")]
    Moved,
    /// The agent is at its request limit, and no slot became free in time.
    #[error("the agent of this workload has too many concurrent requests")]
    Busy,
    /// The agent is reconnecting; the request has waited as long as it may, or too many wait.
    #[error("the agent of this workload is reconnecting")]
    Reconnecting,
    /// The agent does not serve this port.
    #[error("the agent has no mapping for port {0}; run `capt connect` again")]
    NotMapped(u16),
    /// The application on the developer's machine does not respond.
    #[error("the application on the developer's machine does not respond: {0}")]
    Unreachable(String),
    /// The connection failed before a response. The application may have received the request.
    #[error("the connection to the agent failed before a response")]
    Lost,
}

impl TunnelError {
    /// HTTP status for the caller.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Disconnected | Self::Moved | Self::Busy | Self::Reconnecting | Self::Lost => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::NotMapped(_) | Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// When a retry is useful.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Moved | Self::Busy | Self::Reconnecting | Self::Lost => Some(Duration::from_secs(1)),
            Self::Disconnected | Self::NotMapped(_) | Self::Unreachable(_) => None,
        }
    }

    /// Category for `x-sandbox-error` and counters.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Disconnected => "local-disconnected",
            Self::Moved => "local-moved",
            Self::Busy => "local-busy",
            Self::Reconnecting => "local-reconnecting",
            Self::NotMapped(_) => "local-not-mapped",
            Self::Unreachable(_) => "local-unreachable",
            Self::Lost => "local-lost",
        }
    }
}
