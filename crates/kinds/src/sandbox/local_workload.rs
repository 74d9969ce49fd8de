//! `LocalWorkload`: a process on a developer's machine that replaces a workload of the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{DisconnectPolicy, Mapping, Override, WorkloadRef},
    sandbox_status::BaselineService,
    schema,
};

/// A process on a developer's machine that replaces a workload of the cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "sandbox.capt.x-k8s.io",
    version = "v1alpha1",
    kind = "LocalWorkload",
    plural = "localworkloads",
    shortname = "lw",
    namespaced,
    status = "LocalWorkloadStatus",
    derive = "PartialEq",
    doc = "A process on a developer's machine that answers for a workload, under the key of a sandbox.",
    category = "capt",
    validation = Rule::new("size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')")
        .message("metadata.name has at most 63 small letters, digits and hyphens"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "SANDBOX", type_ = "string", json_path = ".spec.sandboxRef.name"),
    printcolumn(name = "BASELINE", type_ = "string", json_path = ".spec.from.name"),
    printcolumn(name = "USER", type_ = "string", json_path = ".status.session.user"),
    printcolumn(name = "RTT", type_ = "integer", json_path = ".status.session.rttMillis"),
    printcolumn(name = "SINCE", type_ = "date", json_path = ".status.session.connectedSince"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "MESSAGE",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct LocalWorkloadSpec {
    /// The sandbox, of the same namespace.
    #[x_kube(validation = Rule::new("self == oldSelf").message("sandboxRef cannot be changed: make another local workload"))]
    pub sandbox_ref: SandboxRef,
    /// The baseline that it replaces.
    pub from: WorkloadRef,
    /// Which ports are answered by whom.
    #[schemars(length(min = 1, max = schema::MAX_MAPPINGS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub mappings: Vec<Mapping>,
    /// What happens to requests while no agent is connected.
    #[serde(default)]
    pub disconnect_policy: DisconnectPolicy,
    /// For how long a lost connection may come back.
    #[serde(default = "usual_grace")]
    #[schemars(length(max = 4), regex(pattern = schema::GRACE))]
    pub disconnect_grace_period: String,
    /// Which of its answers count; all of them if left out.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Override>,
}

fn usual_grace() -> String {
    "30s".to_owned()
}

/// A sandbox of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRef {
    /// Its name.
    #[schemars(length(min = 1, max = 30), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
}

/// What was observed of a local workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalWorkloadStatus {
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people; made from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<LocalPhase>,
    /// The connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// The ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub ports: Vec<LocalPortStatus>,
    /// The Services of the baseline, and which of their ports lead to which of its containers' ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["service".into()]))]
    pub services: Vec<BaselineService>,
    /// Conditions. Every type is always present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Where a local workload is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LocalPhase {
    /// No agent has connected yet.
    Pending,
    /// An agent is connected.
    Connected,
    /// The connection was lost; the grace period is running.
    Reconnecting,
    /// The connection was lost, and the grace period is over.
    Disconnected,
    /// Needs a change of its spec.
    Failed,
}

/// A connection from a developer's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Who is connected, as the API server names them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The router that holds the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Where the other routers reach that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_address: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_since: Option<Time>,
    /// When the agent was heard last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// How long a ping takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_millis: Option<i64>,
    /// Which connection it is, counted; an older one gets no requests.
    #[serde(default)]
    pub epoch: i64,
}

/// What was observed of a port on a developer's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPortStatus {
    /// The port of the baseline's container.
    pub port: i32,
    /// Who should answer.
    pub to_local: String,
    /// Whether it does.
    #[serde(default)]
    pub reachable: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
