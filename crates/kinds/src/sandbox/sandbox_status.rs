//! The status of a Sandbox.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::EndpointStatus;

/// What was observed of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStatus {
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people; made from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The key that leads to the forks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// When the sandbox is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_delete_time: Option<Time>,
    /// When the spec changed last, as far as it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_changed_time: Option<Time>,
    /// How many of the forks are ready, as `1/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_forks: Option<String>,
    /// How many of the local workloads are connected, as `0/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_locals: Option<String>,
    /// The forks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub forks: Vec<ForkStatus>,
    /// The local workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub locals: Vec<LocalStatus>,
    /// The workloads whose requests are counted under the key.
    #[serde(rename = "virtual", default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub virtuals: Vec<VirtualStatus>,
    /// The preview addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub endpoints: Vec<EndpointStatus>,
    /// Digest of the sandbox's own routes, when all routers had them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programmed_routes: Option<String>,
    /// Conditions. Every type is always present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Where a sandbox or a route group is in its life. One word for people; programs read the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Waits for an external object: a baseline, a cluster, compute capacity.
    Pending,
    /// Is being created.
    Progressing,
    /// Everything asked for is there.
    Ready,
    /// Was ready, and something is down now. Routes are kept.
    Degraded,
    /// Needs a change of its spec or baseline.
    Failed,
    /// Its TTL has expired.
    Expired,
    /// Is being deleted.
    Terminating,
}

/// What was observed of a fork.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkStatus {
    /// Its name in the spec.
    pub name: String,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineStatus>,
    /// Name of the forked workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// How many pods it has.
    #[serde(default)]
    pub replicas: i32,
    /// How many of them are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Whether it was made from the baseline as it is now.
    #[serde(default)]
    pub up_to_date: bool,
    /// Its Services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["from".into()]))]
    pub services: Vec<ForkServiceStatus>,
    /// Services of the baseline that cannot be routed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["service".into()]))]
    pub unroutable: Vec<Unroutable>,
    /// Why it is not ready, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What a fork was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineStatus {
    /// Uid of the baseline.
    pub uid: String,
    /// Its generation then.
    #[serde(default)]
    pub generation: i64,
    /// Digest of what a fork takes from it.
    pub observed_hash: String,
}

/// A Service of the baseline, and the fork's Service that replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkServiceStatus {
    /// The baseline's Service.
    pub from: String,
    /// The fork's Service.
    pub to: String,
    /// Its ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePortStatus>,
    /// Ports of the baseline's Service that no container of the fork has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_ports: Vec<i32>,
}

/// A port of a Service, and the port of a container behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePortStatus {
    /// The port of the Service.
    pub port: i32,
    /// The port of the container.
    pub target_port: i32,
}

/// A Service that cannot be routed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unroutable {
    /// The Service.
    pub service: String,
    /// Why.
    pub reason: String,
}

/// What was observed of a local workload of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalStatus {
    /// Its name in the spec.
    pub name: String,
    /// Whether an agent is connected for it.
    #[serde(default)]
    pub connected: bool,
}

/// What was observed of a workload whose requests are counted under the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualStatus {
    /// Its name in the spec.
    pub name: String,
    /// Its Services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<BaselineService>,
}

/// A Service of a baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineService {
    /// Its name.
    pub service: String,
    /// Its ports, and those of the containers behind them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePortStatus>,
}
