//! `CAPTCluster`: the network of one cluster; the infrastructure cluster of Cluster API's contract v1beta2.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    absent_spec::spec_may_be_absent,
    common::{ContractEndpoint, IdentityRef, Phase, TemplateRef},
    schema,
};

/// Desired state of the network.
/// Without `vpcTemplateRef` and `existingVpcId` the built-in VPC module is used, and `vpcConfig` holds its variables.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTCluster",
    root = "CaptCluster",
    plural = "captclusters",
    namespaced,
    status = "CaptClusterStatus",
    derive = "PartialEq",
    doc = "The network (VPC, subnets, NAT) of one EKS cluster, created by Terraform.",
    category = "cluster-api",
    printcolumn(name = "VPC-ID", type_ = "string", json_path = ".status.vpcId"),
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "ENDPOINT", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(
        name = "CLUSTER",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        priority = 1
    ),
    printcolumn(
        name = "PAUSED",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Paused\")].status",
        priority = 1
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(
    validation = Rule::new("!has(self.vpcConfig) || !has(self.vpcConfig.availabilityZones) || self.vpcConfig.availabilityZones.all(zone, zone.startsWith(self.region) && size(zone) == size(self.region) + 1)")
        .message("availabilityZones must lie in spec.region").field_path(".vpcConfig.availabilityZones"),
    validation = Rule::new("!has(self.vpcConfig) || has(self.existingVpcId) || ((!has(self.vpcConfig.privateSubnetIds) || size(self.vpcConfig.privateSubnetIds) == 0) && (!has(self.vpcConfig.publicSubnetIds) || size(self.vpcConfig.publicSubnetIds) == 0))")
        .message("privateSubnetIds and publicSubnetIds name subnets of an existing VPC; set existingVpcId too, or remove them").field_path(".vpcConfig"),
    validation = Rule::new("!has(self.vpcConfig) || !(has(self.existingVpcId) || has(self.vpcTemplateRef)) || !(has(self.vpcConfig.cidr) || has(self.vpcConfig.availabilityZoneCount) || has(self.vpcConfig.natGateways) || has(self.vpcConfig.flowLogs) || (has(self.vpcConfig.availabilityZones) && size(self.vpcConfig.availabilityZones) > 0))")
        .message("cidr, availabilityZones, availabilityZoneCount, natGateways and flowLogs describe the built-in VPC; remove them, or existingVpcId and vpcTemplateRef").field_path(".vpcConfig"),
    validation = Rule::new("self.region == oldSelf.region || self.region.matches('^[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}$')")
        .message("region must be an AWS region such as eu-central-1").field_path(".region"),
)]
pub struct CaptClusterSpec {
    /// The AWS region.
    pub region: String,
    /// The template that creates the VPC; the built-in module if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_template_ref: Option<TemplateRef>,
    /// Use this existing VPC instead of creating one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing_vpc_id: Option<String>,
    /// Retain the VPC when this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain_vpc_on_delete: Option<bool>,
    /// Configuration of the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_config: Option<VpcConfig>,
    /// Name of the `WorkspaceTemplateApply` of the VPC. Set by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_apply_name: Option<String>,
    /// Externally provided endpoint of the cluster. EKS endpoints are set on the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ContractEndpoint>,
    /// The AWS identity; the operator's own if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
}

spec_may_be_absent!(CaptClusterSpec);

/// Variables of the VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.availabilityZoneCount) || !has(self.availabilityZones) || size(self.availabilityZones) == 0")
        .message("set availabilityZones or availabilityZoneCount, not both"),
    validation = Rule::new("!has(self.privateSubnetIds) || size(self.privateSubnetIds) != 1")
        .message("privateSubnetIds must name at least two subnets, because EKS wants two availability zones").field_path(".privateSubnetIds"),
)]
pub struct VpcConfig {
    /// Name of the VPC; defaults to `{cluster}-vpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// IPv4 CIDR of the VPC, /16 to /24; defaults to 10.0.0.0/16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18))]
    #[x_kube(validation = Rule::new("isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self).prefixLength() >= 16 && cidr(self).prefixLength() <= 24 && cidr(self) == cidr(self).masked()")
        .message("must be an IPv4 network from /16 to /24 without host bits, such as 10.0.0.0/16"))]
    pub cidr: Option<String>,
    /// Availability zones; defaults to the first `availabilityZoneCount` zones of the region.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), inner(length(max = 32), regex(pattern = schema::ZONE)))]
    #[x_kube(merge_strategy = ListMerge::Set, validation = Rule::new("size(self) != 1").message("must name 2 or 3 zones"))]
    pub availability_zones: Vec<String>,
    /// Number of availability zones; defaults to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 3))]
    pub availability_zone_count: Option<i32>,
    /// NAT gateways of the private subnets; defaults to Single.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_gateways: Option<NatGateways>,
    /// Flow logs of the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_logs: Option<FlowLogs>,
    /// Private subnets of the existing VPC; discovered by their route tables if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::subnet_ids")]
    pub private_subnet_ids: Vec<String>,
    /// Public subnets of the existing VPC; discovered by their route tables if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::subnet_ids")]
    pub public_subnet_ids: Vec<String>,
    /// Tags of every resource of the VPC.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: BTreeMap<String, String>,
}

/// Number of NAT gateways of a VPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NatGateways {
    /// None: private subnets reach AWS through VPC endpoints only.
    None,
    /// One for all zones.
    #[default]
    Single,
    /// One in each zone.
    PerAZ,
}

/// Flow logs of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowLogs {
    /// Whether flow logs are enabled.
    #[serde(default)]
    pub enabled: bool,
    /// Retention in days.
    #[serde(default = "thirty_days")]
    #[schemars(schema_with = "schema::retention_days")]
    pub retention_days: i32,
}

impl Default for FlowLogs {
    fn default() -> Self {
        Self { enabled: false, retention_days: thirty_days() }
    }
}

pub(super) fn thirty_days() -> i32 {
    30
}

/// Observed state of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptClusterStatus {
    /// Initialization latches of contract v1beta2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
    /// Id of the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// Name of the Terraform workspace of the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_workspace_name: Option<String>,
    /// Whether the network is ready. For users and old tools; the contract uses `initialization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Lifecycle phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Host of the cluster's endpoint, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Reason of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Message of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The availability zones of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub failure_domains: Vec<FailureDomain>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Status of the VPC's `WorkspaceTemplateApply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_status: Option<VpcWorkspaceStatus>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Initialization latches of an infrastructure cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// True once the network is provisioned; never reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// An availability zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the zone.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control planes may run in the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Additional attributes of the zone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Last status of the VPC's `WorkspaceTemplateApply`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcWorkspaceStatus {
    /// Whether it is applied and healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Last applied revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// Last failed revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_revision: Option<String>,
    /// Message of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_message: Option<String>,
    /// Name of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Time of the last apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
}
