//! `RouteGroup`: one key for several sandboxes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{Endpoint, EndpointStatus},
    sandbox_status::Phase,
    schema,
};

/// One key for several sandboxes.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "sandbox.capt.x-k8s.io",
    version = "v1alpha1",
    kind = "RouteGroup",
    plural = "routegroups",
    shortname = "rg",
    namespaced,
    status = "RouteGroupStatus",
    derive = "PartialEq",
    doc = "One key that leads to the forks of all sandboxes with certain labels.",
    category = "capt",
    validation = Rule::new("size(self.metadata.name) <= 30")
        .message("metadata.name has at most 30 characters: it is a part of host names"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')")
        .message("metadata.name has small letters, digits and hyphens: it is a part of host names"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "KEY", type_ = "string", json_path = ".status.routingKey"),
    printcolumn(name = "MATCHED", type_ = "integer", json_path = ".status.totalSandboxes"),
    printcolumn(name = "READY", type_ = "integer", json_path = ".status.readySandboxes"),
    printcolumn(name = "ROUTES", type_ = "integer", json_path = ".status.routes"),
    printcolumn(name = "DATAPLANE", type_ = "string", json_path = ".status.dataPlane"),
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
    validation = Rule::new("(has(self.routingKey) ? self.routingKey : '') == (has(oldSelf.routingKey) ? oldSelf.routingKey : '')")
        .message("routingKey cannot be changed: make another route group").field_path(".routingKey"),
)]
pub struct RouteGroupSpec {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub description: Option<String>,
    /// Which sandboxes belong to it.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Where its sandboxes are.
    #[serde(default)]
    pub namespaces: Namespaces,
    /// The key; made from the object's uid if left out or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = schema::ROUTING_KEY))]
    pub routing_key: Option<String>,
    /// Preview addresses; requests to them get the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ENDPOINTS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub endpoints: Vec<Endpoint>,
    /// How requests get to the forks.
    #[serde(default)]
    pub routing: Routing,
    /// When the group is deleted; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<GroupTtl>,
}

/// Which sandboxes belong to a group. Exactly one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.label), has(self.any), has(self.all)].filter(it, it).size() == 1")
        .message("match needs exactly one of label, any and all"),
)]
pub struct Match {
    /// Those with this label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelMatch>,
    /// Those for which one of these holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_CLAUSES))]
    pub any: Option<Vec<Clause>>,
    /// Those for which all of these hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_CLAUSES))]
    pub all: Option<Vec<Clause>>,
}

/// A part of a match. Exactly one of the three. Schemas cannot recurse, so this is the last level but one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.label), has(self.any), has(self.all)].filter(it, it).size() == 1")
        .message("a clause of match needs exactly one of label, any and all"),
)]
pub struct Clause {
    /// The sandbox has this label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelMatch>,
    /// It has one of these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_CLAUSES))]
    pub any: Option<Vec<Leaf>>,
    /// It has all of these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_CLAUSES))]
    pub all: Option<Vec<Leaf>>,
}

/// The last level of a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    /// The sandbox has this label.
    pub label: LabelMatch,
}

/// A label of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelMatch {
    /// Its key.
    #[schemars(length(min = 1, max = 317), regex(pattern = schema::LABEL_KEY))]
    pub key: String,
    /// Its value; `*` stands for any text and `?` for any one character.
    #[schemars(length(max = 63), regex(pattern = schema::LABEL_GLOB))]
    pub value: String,
}

/// Where the sandboxes of a group are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.from) && self.from == 'Selector') == has(self.selector)")
        .message("namespaces.selector is needed by from Selector, and by nothing else"),
)]
pub struct Namespaces {
    /// Which namespaces.
    #[serde(default)]
    pub from: NamespaceScope,
    /// The labels of the namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Which namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespaceScope {
    /// The group's own.
    #[default]
    Same,
    /// All.
    All,
    /// Those with certain labels.
    Selector,
}

/// How requests get to the forks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// By whom.
    #[serde(default)]
    pub mode: RoutingMode,
    /// Headers whose whole value is the key, beside the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 64), regex(pattern = schema::HEADER_NAME)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub custom_headers: Vec<String>,
    /// Parameter of the query whose value is the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = schema::QUERY_PARAM))]
    pub query_param: Option<String>,
    /// What happens to requests for a fork that is not ready.
    #[serde(default)]
    pub unready_policy: UnreadyPolicy,
}

/// By whom requests are sent to the forks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RoutingMode {
    /// By the mesh, if there is a live one; else by the router.
    #[default]
    Auto,
    /// By our router.
    Router,
    /// By a mesh that reads `HTTPRoute`.
    #[serde(rename = "GatewayAPI")]
    GatewayApi,
    /// By the caller: nothing is changed.
    Explicit,
}

/// What happens to requests for a fork that is not ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnreadyPolicy {
    /// They are answered with 503: a test must not pass because of other code.
    #[default]
    Fail,
    /// They go to the baseline.
    Baseline,
}

/// When a group is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupTtl {
    /// How long it lives: a number and one of m, h, d, w.
    #[schemars(length(max = 11), regex(pattern = schema::TTL))]
    pub duration: String,
    /// Start of the duration.
    #[serde(default)]
    pub offset_from: GroupTtlOffset,
}

/// From when on a group's life counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GroupTtlOffset {
    /// From its creation.
    #[default]
    CreatedAt,
    /// From the last change of its spec.
    UpdatedAt,
    /// From when no sandbox matches any more.
    NoMatchedSandboxes,
}

/// What was observed of a route group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteGroupStatus {
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people; made from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// The sandboxes that belong to it, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matched_sandboxes: Vec<String>,
    /// How many of them are ready.
    #[serde(default)]
    pub ready_sandboxes: i32,
    /// How many there are.
    #[serde(default)]
    pub total_sandboxes: i32,
    /// Baselines that more than one of them overrides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Who sends requests to the forks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<DataPlane>,
    /// How many ports of Services are overridden under the key.
    #[serde(default)]
    pub routes: i32,
    /// Revision of the table in which they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_revision: Option<String>,
    /// Digest of the group's own routes, when all routers had them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programmed_routes: Option<String>,
    /// How many of the ready routers have that table, as `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programmed_routers: Option<String>,
    /// The preview addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub endpoints: Vec<EndpointStatus>,
    /// When the group is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_delete_time: Option<Time>,
    /// When the spec changed last, as far as it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_changed_time: Option<Time>,
    /// Since when no sandbox belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmatched_since: Option<Time>,
    /// Conditions. Every type is always present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A baseline that more than one sandbox of a group overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The baseline, as `namespace/name`.
    pub baseline: String,
    /// The sandboxes, as `namespace/name`.
    pub sandboxes: Vec<String>,
}

/// Who sends requests to the forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DataPlane {
    /// Our router.
    Router,
    /// A mesh that reads `HTTPRoute`.
    #[serde(rename = "GatewayAPI")]
    GatewayApi,
    /// The caller.
    Explicit,
}
