//! Fargate profiles as part of a `CAPTControlPlane`.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{common::TemplateRef, schema};

/// A Fargate profile that the cluster should have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FargateProfile {
    /// Name of the profile, unique in the cluster.
    #[schemars(length(min = 1, max = 100), regex(pattern = schema::PROFILE_NAME))]
    #[x_kube(validation = Rule::new("!self.startsWith('eks-')").message("must not start with eks-, which AWS keeps for itself"))]
    pub name: String,
    /// Pods that match any of these run on Fargate.
    #[schemars(length(min = 1, max = schema::MAX_SELECTORS))]
    pub selectors: Vec<FargateSelector>,
    /// The template that makes the profile. Left out: the built-in module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_ref: Option<TemplateRef>,
    /// The private subnets the pods get their addresses from; all private subnets of the VPC if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::subnet_ids")]
    pub subnet_ids: Vec<String>,
    /// The role of the pods' hosts; the cluster's own pod execution role if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = schema::POD_ROLE_ARN))]
    pub pod_execution_role_arn: Option<String>,
    /// Tags of the profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: BTreeMap<String, String>,
}

/// Pods of one namespace, perhaps with labels. `*` and `?` are wildcards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FargateSelector {
    /// Namespace of the pods.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::SELECTOR_NAMESPACE))]
    pub namespace: String,
    /// Labels that a pod must carry, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::selector_labels")]
    pub labels: BTreeMap<String, String>,
}

/// What was observed of one Fargate profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FargateProfileStatus {
    /// Name of the profile in the spec.
    pub name: String,
    /// Whether EKS says ACTIVE and reports no health issue.
    #[serde(default)]
    pub ready: bool,
    /// The `WorkspaceTemplateApply` that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_apply_name: Option<String>,
    /// One word for the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The last failure in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What EKS says: CREATING, ACTIVE, DELETING, `CREATE_FAILED` or `DELETE_FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// ARN of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Name of the profile in EKS, which differs from `name` after a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<String>,
    /// What EKS finds wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_issues: Vec<HealthIssue>,
}

/// Something EKS finds wrong with a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthIssue {
    /// AWS's word for it, such as `PodExecutionRoleAlreadyInUse`.
    pub code: String,
    /// AWS's sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The resources it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_ids: Vec<String>,
}
