//! Which keys are whose, for consumers of queues: no request tells them.

use serde::Serialize;

use super::route::Key;

/// A workload that has forks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// `Deployment`, for one.
    pub kind: String,
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

/// One key under which somebody else than a workload itself does its work.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The key.
    pub routing_key: Key,
    /// The sandbox that has it.
    pub sandbox: String,
    /// Where its ports are served.
    pub mappings: Vec<Mapping>,
}

/// One port of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// Of the workload's container.
    pub workload_port: u16,
    /// Who serves it.
    pub destinations: Vec<Destination>,
}

/// Who serves a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}
