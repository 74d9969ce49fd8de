//! The words of the tunnel: the first request of the agent, and what the gateway asks the agent itself.

use http::HeaderName;
use serde::{Deserialize, Serialize};

/// Where an agent knocks: this, a namespace, `/` and a name.
pub(super) const PATH: &str = "/tunnel/v1/";
/// What the connection becomes.
pub(super) const UPGRADE: &str = "capt-tunnel/1";

/// Which process of the agent this is.
pub(super) const SESSION: HeaderName = HeaderName::from_static("capt-tunnel-session");
/// The epoch it had before, or that it has now.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("capt-tunnel-epoch");
/// Its version.
pub(super) const VERSION: HeaderName = HeaderName::from_static("capt-tunnel-agent");
/// What it is willing to dial.
pub(super) const MAPPINGS: HeaderName = HeaderName::from_static("capt-tunnel-mappings");
/// That it wants what another user has.
pub(super) const TAKEOVER: HeaderName = HeaderName::from_static("capt-tunnel-takeover");
/// Who it is, by the gateway.
pub(super) const USER: HeaderName = HeaderName::from_static("capt-tunnel-user");

/// The container port a request is for. A request without it is for the agent itself.
pub(super) const PORT: HeaderName = HeaderName::from_static("capt-tunnel-port");
/// Why the agent, and not the application, gave this answer.
pub(super) const ERROR: HeaderName = HeaderName::from_static("capt-tunnel-error");
/// The agent has no such mapping.
pub(super) const NOT_MAPPED: &str = "not-mapped";
/// Nothing answers on this machine, or what answers breaks off.
pub(super) const UNREACHABLE: &str = "unreachable";

/// The agent answers with one line for every change of its ports, without end.
pub(super) const REPORTS: &str = "/reports";
/// The agent answers with the newest token it has.
pub(super) const TOKEN: &str = "/token";
/// Somebody else holds the workload now; the body says who. The agent ends.
pub(super) const FENCED: &str = "/fenced";

/// The gateway ends. The agent goes to another one at once, and finishes here what is under way.
pub(super) const MOVE: &str = "/move";

/// One port, as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortReport {
    /// The container port of the baseline.
    pub port: u16,
    /// What the agent dials for it.
    pub to_local: String,
    /// Whether somebody listens there.
    pub reachable: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A line of [`REPORTS`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) ports: Vec<PortReport>,
    /// It leaves because its user wants it to, and is not expected back.
    #[serde(default)]
    pub(super) leaves: bool,
}
