//! `WorkspaceTemplateApply`: one Terraform workspace, from a template or a built-in module, with its variables and state.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    absent_spec::spec_may_be_absent,
    common::{IdentityRef, SecretRef, TemplateRef, WorkspaceRef},
    schema,
    workspace_apply_status::WorkspaceTemplateApplyStatus,
};

/// Desired state of a Terraform workspace.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "WorkspaceTemplateApply",
    plural = "workspacetemplateapplies",
    shortname = "wtapply",
    namespaced,
    status = "WorkspaceTemplateApplyStatus",
    derive = "PartialEq",
    doc = "One Terraform workspace: a template or a built-in module, its variables, one state.",
    category = "capt",
    category = "terraform",
    printcolumn(name = "WORKSPACE", type_ = "string", json_path = ".status.workspaceName"),
    printcolumn(name = "APPLIED", type_ = "boolean", json_path = ".status.applied"),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "RUN", type_ = "string", json_path = ".status.run.phase"),
    printcolumn(name = "DONE", type_ = "integer", json_path = ".status.progress.done", priority = 1),
    printcolumn(name = "TOTAL", type_ = "integer", json_path = ".status.progress.total", priority = 1),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.lastError.message", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(
    validation = Rule::new("has(self.templateRef) != has(self.module)")
        .message("set exactly one of templateRef and module"),
    validation = Rule::new("!has(self.inputs) || has(self.module)")
        .message("inputs are the variables of a built-in module; use variables for a template").field_path(".inputs"),
    validation = Rule::new("!has(self.inputsFrom) || size(self.inputsFrom) == 0 || has(self.module)")
        .message("inputsFrom are variables of a built-in module; a template has varFiles").field_path(".inputsFrom"),
    validation = Rule::new("!has(self.module) || !has(self.variables) || size(self.variables) == 0")
        .message("variables are for a template; use inputs for a built-in module").field_path(".variables"),
    validation = Rule::new("!has(self.module) || has(self.region)")
        .message("a built-in module needs a region").field_path(".region"),
    validation = Rule::new("!has(oldSelf.module) || (has(self.module) && self.module == oldSelf.module)")
        .message("module cannot be changed: everything would be replaced").field_path(".module"),
    validation = Rule::new("!has(oldSelf.region) || (has(self.region) && self.region == oldSelf.region)")
        .message("region cannot be changed: everything would be replaced").field_path(".region"),
)]
pub struct WorkspaceTemplateApplySpec {
    /// The template to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// The built-in module to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<BuiltInModule>,
    /// Variables of the built-in module, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub inputs: Option<BTreeMap<String, Value>>,
    /// Variables of the built-in module whose values are in Secrets, such as the outputs of another workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["input".into()]))]
    pub inputs_from: Vec<InputFrom>,
    /// The AWS region of a built-in module's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = schema::REGION))]
    pub region: Option<String>,
    /// The AWS identity; defaults to the template's, else the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
    /// The Secret that receives the outputs, overriding the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<SecretRef>,
    /// Values for the placeholders of the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Secrets that must exist first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_for_secrets: Vec<SecretRef>,
    /// Workspaces that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_for_workspaces: Vec<WorkspaceRef>,
    /// Retain the resources when this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain_workspace_on_delete: Option<bool>,
}

spec_may_be_absent!(WorkspaceTemplateApplySpec);

/// A variable with its value in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputFrom {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 128))]
    pub input: String,
    /// The Secret; the run waits until it exists.
    pub secret_ref: SecretRef,
    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// Encoding of the value.
    #[serde(default)]
    pub format: InputFormat,
}

/// Encoding of a value in a Secret. String outputs are stored as text, all others as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InputFormat {
    /// Plain text.
    #[default]
    Text,
    /// JSON.
    #[serde(rename = "JSON")]
    Json,
}

/// A Terraform module built into capt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuiltInModule {
    /// A VPC with subnets and NAT.
    Vpc,
    /// An EKS cluster.
    Eks,
    /// One Fargate profile.
    Fargate,
}
