//! Constants of the tunnel protocol: the upgrade request, and the control requests to the agent.

use http::HeaderName;
use serde::{Deserialize, Serialize};

/// Path prefix of the upgrade request, followed by namespace, `/` and name.
pub(super) const PATH: &str = "/tunnel/v1/";
/// Name of the upgraded protocol.
pub(super) const UPGRADE: &str = "capt-tunnel/1";

/// Session id of the agent process.
pub(super) const SESSION: HeaderName = HeaderName::from_static("capt-tunnel-session");
/// The previous epoch in the request, the new one in the response.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("capt-tunnel-epoch");
/// Version of the agent.
pub(super) const VERSION: HeaderName = HeaderName::from_static("capt-tunnel-agent");
/// Mappings of the agent.
pub(super) const MAPPINGS: HeaderName = HeaderName::from_static("capt-tunnel-mappings");
/// Whether to take over the workload from another user.
pub(super) const TAKEOVER: HeaderName = HeaderName::from_static("capt-tunnel-takeover");
/// User name, as determined by the gateway.
pub(super) const USER: HeaderName = HeaderName::from_static("capt-tunnel-user");

/// The container port of a request. Requests without it are control requests.
pub(super) const PORT: HeaderName = HeaderName::from_static("capt-tunnel-port");
/// Error of the agent itself, as opposed to a response of the application.
pub(super) const ERROR: HeaderName = HeaderName::from_static("capt-tunnel-error");
/// The agent has no such mapping.
pub(super) const NOT_MAPPED: &str = "not-mapped";
/// The local target does not respond or closed the connection.
pub(super) const UNREACHABLE: &str = "unreachable";

/// Control request: the agent streams one line per change of its ports.
pub(super) const REPORTS: &str = "/reports";
/// Control request: the agent returns its newest token.
pub(super) const TOKEN: &str = "/token";
/// Control request: another agent holds the workload; the body says which. The agent ends.
pub(super) const FENCED: &str = "/fenced";

/// Control request: the gateway shuts down. The agent connects to another one and drains its requests here.
pub(super) const MOVE: &str = "/move";

/// Status of one port, as reported by the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortReport {
    /// The container port of the baseline.
    pub port: u16,
    /// Target of its mapping.
    pub to_local: String,
    /// Whether the target accepts connections.
    pub reachable: bool,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A line of [`REPORTS`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AgentReport {
    pub(super) ports: Vec<PortReport>,
    /// The user stopped the agent; it is not expected to reconnect.
    #[serde(default)]
    pub(super) leaves: bool,
}
