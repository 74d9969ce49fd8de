//! `Sandbox`: forks of some services, and the key that leads to them.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{DisconnectPolicy, Endpoint, Mapping, Override, WorkloadRef},
    customizations::Customizations,
    sandbox_status::SandboxStatus,
    schema,
};

/// Forks of some services, and the key that leads to them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "sandbox.capt.x-k8s.io",
    version = "v1alpha1",
    kind = "Sandbox",
    plural = "sandboxes",
    shortname = "sbx",
    namespaced,
    status = "SandboxStatus",
    derive = "PartialEq",
    doc = "Forks of some services, reached only by the requests that carry the sandbox's key.",
    category = "capt",
    validation = Rule::new("size(self.metadata.name) <= 30")
        .message("metadata.name has at most 30 characters: it is a part of host names and of the names of forks"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')")
        .message("metadata.name has small letters, digits and hyphens: it is a part of host names"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.readyForks"),
    printcolumn(name = "KEY", type_ = "string", json_path = ".status.routingKey"),
    printcolumn(name = "LOCALS", type_ = "string", json_path = ".status.connectedLocals"),
    // Not a date: kubectl shows how long ago a date was, and this one is ahead.
    printcolumn(name = "EXPIRES", type_ = "string", json_path = ".status.scheduledDeleteTime"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    ),
    printcolumn(
        name = "MESSAGE",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.forks) && size(self.forks) > 0) || (has(self.local) && size(self.local) > 0) || (has(self.virtual) && size(self.virtual) > 0)")
        .message("a sandbox needs at least one of forks, local and virtual"),
    validation = Rule::new("!has(self.forks) || self.forks.all(one, self.forks.exists_one(it, (has(it.name) ? it.name : it.forkOf.name) == (has(one.name) ? one.name : one.forkOf.name)))")
        .message("forks must have different names; without a name, a fork has its baseline's").field_path(".forks"),
    validation = Rule::new("!has(self.forks) || self.forks.all(one, self.forks.exists_one(it, it.forkOf.name == one.forkOf.name))")
        .message("forks must have different baselines in forkOf").field_path(".forks"),
    validation = Rule::new("!has(self.local) || self.local.all(one, self.local.exists_one(it, it.from.name == one.from.name))")
        .message("local workloads must have different baselines in from; one of them may have several mappings").field_path(".local"),
    validation = Rule::new("!has(self.forks) || !has(self.local) || self.local.all(one, has(one.override) || (has(one.disconnectPolicy) && one.disconnectPolicy == 'Fork') || !self.forks.exists(it, it.forkOf.name == one.from.name))")
        .message("a baseline that is forked too needs override or disconnectPolicy Fork in local").field_path(".local"),
    validation = Rule::new("(has(self.routingKey) ? self.routingKey : '') == (has(oldSelf.routingKey) ? oldSelf.routingKey : '')")
        .message("routingKey cannot be changed: make another sandbox").field_path(".routingKey"),
    validation = Rule::new("has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef == oldSelf.clusterRef)")
        .message("clusterRef cannot be changed: make another sandbox").field_path(".clusterRef"),
)]
pub struct SandboxSpec {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub description: Option<String>,
    /// The workload cluster, made by this operator from an object of the same namespace; the operator's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterRef>,
    /// The key that leads to the forks; made from the object's uid if left out or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = schema::ROUTING_KEY))]
    pub routing_key: Option<String>,
    /// When the sandbox is deleted; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    /// Forks of workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_FORKS))]
    pub forks: Vec<ForkSpec>,
    /// Workloads on developers' machines. Each becomes a `LocalWorkload`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_FORKS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub local: Vec<LocalSpec>,
    /// Workloads whose requests go to the baseline, but are counted under the key.
    #[serde(rename = "virtual", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_FORKS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub virtuals: Vec<VirtualSpec>,
    /// Preview addresses; requests to them get the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ENDPOINTS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub endpoints: Vec<Endpoint>,
}

/// A workload cluster of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRef {
    /// Name of the Cluster.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// When a sandbox is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ttl {
    /// How long it lives: a number and one of m, h, d, w.
    #[schemars(length(max = 11), regex(pattern = schema::TTL))]
    pub duration: String,
    /// Start of the duration.
    #[serde(default)]
    pub offset_from: TtlOffset,
}

/// From when on a sandbox's life counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TtlOffset {
    /// From its creation.
    #[default]
    CreatedAt,
    /// From the last change of its spec.
    UpdatedAt,
}

/// A fork of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkSpec {
    /// Its name, unique in the sandbox; the baseline's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub name: Option<String>,
    /// The baseline.
    pub fork_of: WorkloadRef,
    /// What happens when the baseline changes.
    #[serde(default)]
    pub baseline_update_policy: BaselineUpdatePolicy,
    /// How the fork differs.
    #[serde(default)]
    pub customizations: Customizations,
}

impl ForkSpec {
    /// Its name, which defaults to that of the baseline.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.fork_of.name)
    }
}

/// What happens to a fork when its baseline changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BaselineUpdatePolicy {
    /// The fork is rebuilt from it.
    #[default]
    Follow,
    /// The fork stays unchanged, and its status reports it as outdated.
    Pin,
}

/// A workload on a developer's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSpec {
    /// Its name, unique in the sandbox.
    #[schemars(length(min = 1, max = 30), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), regex(pattern = schema::GRACE))]
    pub disconnect_grace_period: Option<String>,
    /// Which of its answers count; all of them if left out.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Override>,
}

/// A workload whose requests are counted under the key, and go to the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualSpec {
    /// Its name, unique in the sandbox.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// The baseline.
    pub workload: WorkloadRef,
}
