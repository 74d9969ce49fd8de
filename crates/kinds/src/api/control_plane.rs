//! `CAPTControlPlane`: one EKS cluster and its Fargate profiles; the control plane of Cluster API's contract v1beta2.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{
    absent_spec::spec_may_be_absent,
    common::{ApiEndpoint, IdentityRef, TemplateRef},
    control_plane_config::{ControlPlaneConfig, Sandboxes},
    control_plane_status::CaptControlPlaneStatus,
    fargate::FargateProfile,
    schema,
};

/// Desired state of an EKS cluster.
/// Without `workspaceTemplateRef` the built-in EKS module is used, and `controlPlaneConfig` holds its variables.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTControlPlane",
    root = "CaptControlPlane",
    plural = "captcontrolplanes",
    namespaced,
    status = "CaptControlPlaneStatus",
    derive = "PartialEq",
    doc = "One EKS cluster with its Fargate profiles, created by Terraform.",
    category = "cluster-api",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.ready"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.controlPlaneEndpoint.host"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        priority = 1
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status",
        priority = 1
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Paused\")].status",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(
    validation = Rule::new("has(self.workspaceTemplateRef) || !has(self.additionalFargateProfiles) || !self.additionalFargateProfiles.exists(profile, profile.name == 'system') || (has(self.controlPlaneConfig) && !self.controlPlaneConfig.systemFargateProfile)")
        .message("the name system is taken by the cluster's own profile; choose another name or set controlPlaneConfig.systemFargateProfile to false").field_path(".additionalFargateProfiles"),
    validation = Rule::new("!has(self.sandboxes) || !self.sandboxes.enabled || !has(self.additionalFargateProfiles) || !self.additionalFargateProfiles.exists(profile, profile.name == 'sandboxes')")
        .message("the name sandboxes is taken by the profile that sandboxes.enabled makes; choose another name or set sandboxes.enabled to false").field_path(".additionalFargateProfiles"),
    validation = Rule::new("!has(self.workspaceTemplateRef) || !has(self.controlPlaneConfig) || !(has(self.controlPlaneConfig.encryption) || has(self.controlPlaneConfig.logging) || has(self.controlPlaneConfig.serviceIpv4Cidr) || (has(self.controlPlaneConfig.accessEntries) && size(self.controlPlaneConfig.accessEntries) > 0))")
        .message("encryption, logging, serviceIpv4Cidr and accessEntries are variables of the built-in module; remove them or workspaceTemplateRef").field_path(".controlPlaneConfig"),
    validation = Rule::new("self.version == oldSelf.version || self.version.matches('^v?1[.][1-9][0-9]([.][0-9]{1,5}([-+][0-9A-Za-z.+-]{1,64})?)?$')")
        .message("version must be a Kubernetes version such as v1.33.0 or 1.33").field_path(".version"),
    validation = Rule::new("!has(oldSelf.eksClusterName) || (has(self.eksClusterName) && self.eksClusterName == oldSelf.eksClusterName)")
        .message("eksClusterName cannot be changed: EKS would make a new cluster").field_path(".eksClusterName"),
)]
pub struct CaptControlPlaneSpec {
    /// Kubernetes version: v1.33.0, 1.33.0 and 1.33 all mean 1.33.
    pub version: String,
    /// The template that creates the cluster; the built-in module if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_ref: Option<TemplateRef>,
    /// Configuration of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_config: Option<ControlPlaneConfig>,
    /// Tags of every resource of the cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_tags: BTreeMap<String, String>,
    /// Endpoint of the cluster. Set by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Name of the `WorkspaceTemplateApply` of the cluster. Set by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_apply_name: Option<String>,
    /// Fargate profiles in addition to the system profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_PROFILES))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub additional_fargate_profiles: Vec<FargateProfile>,
    /// Support for Sandboxes in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<Sandboxes>,
    /// Name of the EKS cluster; defaults to the name of the Cluster object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = schema::CLUSTER_NAME))]
    pub eks_cluster_name: Option<String>,
    /// The AWS identity; defaults to that of the `CAPTCluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
}

spec_may_be_absent!(CaptControlPlaneSpec);
