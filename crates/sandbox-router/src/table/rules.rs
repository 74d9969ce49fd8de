//! Routing rules for queue consumers, whose messages do not pass through the router.

use serde::Serialize;

use super::route::RoutingKey;

/// A workload that has forks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BaselineWorkload {
    /// Such as `Deployment`.
    pub kind: String,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
}

/// A key that another sandbox handles instead of the workload itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoutingRule {
    /// The key.
    pub routing_key: RoutingKey,
    /// The sandbox that handles it.
    pub sandbox: String,
    /// Where its ports are served.
    pub mappings: Vec<PortMapping>,
}

/// One port of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    /// Container port of the workload.
    pub workload_port: u16,
    /// Where it is served.
    pub destinations: Vec<Destination>,
}

/// Where a port is served.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}
