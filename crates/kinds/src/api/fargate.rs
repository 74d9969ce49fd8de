//! Fargate profiles as part of a `CAPTControlPlane`.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{common::TemplateRef, schema};

/// Desired state of a Fargate profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FargateProfile {
    /// Name of the profile, unique in the cluster.
    #[schemars(length(min = 1, max = 100), regex(pattern = schema::PROFILE_NAME))]
    #[x_kube(validation = Rule::new("!self.startsWith('eks-')").message("must not start with eks-, which AWS reserves"))]
    pub name: String,
    /// Pods that match any of these selectors run on Fargate.
    #[schemars(length(min = 1, max = schema::MAX_SELECTORS))]
    pub selectors: Vec<FargateSelector>,
    /// The template that creates the profile; the built-in module if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_ref: Option<TemplateRef>,
    /// Private subnets of the pods; defaults to all private subnets of the VPC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::subnet_ids")]
    pub subnet_ids: Vec<String>,
    /// Pod execution role; defaults to that of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = schema::POD_ROLE_ARN))]
    pub pod_execution_role_arn: Option<String>,
    /// Tags of the profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: BTreeMap<String, String>,
}

/// Selects pods by namespace and labels. `*` and `?` are wildcards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FargateSelector {
    /// Namespace of the pods.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::SELECTOR_NAMESPACE))]
    pub namespace: String,
    /// Labels that a pod must have, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::selector_labels")]
    pub labels: BTreeMap<String, String>,
}

/// Observed state of a Fargate profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FargateProfileStatus {
    /// Name of the profile in the spec.
    pub name: String,
    /// Whether it is ACTIVE without health issues.
    #[serde(default)]
    pub ready: bool,
    /// Name of its `WorkspaceTemplateApply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_apply_name: Option<String>,
    /// Reason of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Message of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// EKS status: CREATING, ACTIVE, DELETING, `CREATE_FAILED` or `DELETE_FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// ARN of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Name of the profile in EKS; differs from `name` after a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<String>,
    /// Health issues reported by EKS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_issues: Vec<HealthIssue>,
}

/// A health issue reported by EKS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthIssue {
    /// AWS error code, such as `PodExecutionRoleAlreadyInUse`.
    pub code: String,
    /// AWS error message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Affected resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_ids: Vec<String>,
}
