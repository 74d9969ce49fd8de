//! Why a request did not get an answer from a local workload.

use std::time::Duration;

use http::StatusCode;

/// No answer came, for this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody is connected, and nobody is expected back: the workload's policy decides.
    #[error("nobody is connected for this workload")]
    Disconnected,
    /// Another gateway has the session by now.
    #[error("another router has the connection of this workload")]
    Moved,
    /// The agent has as many requests as it takes at once, and none ended in time.
    #[error("the agent of this workload has too many requests at once")]
    Busy,
    /// The agent is gone and may come back; the request has waited as long as it may, or too many wait.
    #[error("the agent of this workload is reconnecting")]
    Reconnecting,
    /// The agent does not serve this port.
    #[error("the agent did not confirm a mapping of port {0}; start `capt connect` again")]
    NotMapped(u16),
    /// Nothing answers on the developer's machine.
    #[error("the application on the developer's machine does not answer: {0}")]
    Unreachable(String),
    /// The connection broke before an answer came. The application may have seen the request.
    #[error("the connection to the agent broke before an answer came")]
    Lost,
}

impl Failure {
    /// The status of the answer that a caller gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Disconnected | Self::Moved | Self::Busy | Self::Reconnecting | Self::Lost => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::NotMapped(_) | Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// When it is worth trying again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Moved | Self::Busy | Self::Reconnecting | Self::Lost => Some(Duration::from_secs(1)),
            Self::Disconnected | Self::NotMapped(_) | Self::Unreachable(_) => None,
        }
    }

    /// One word, for `x-sandbox-error` and counters.
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
