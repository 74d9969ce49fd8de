//! `WorkspaceTemplate`: a Terraform configuration supplied by a user. Its inner spec is that of a Crossplane Workspace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    absent_spec::spec_may_be_absent,
    common::{KeyRef, SecretRef},
    schema,
};

/// A Terraform configuration supplied by a user.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "WorkspaceTemplate",
    plural = "workspacetemplates",
    namespaced,
    status = "WorkspaceTemplateObjectStatus",
    derive = "PartialEq",
    doc = "A Terraform configuration that WorkspaceTemplateApply objects run.",
    printcolumn(name = "WORKSPACE", type_ = "string", json_path = ".status.workspaceName"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct WorkspaceTemplateSpec {
    /// The template.
    pub template: WorkspaceTemplateDefinition,
    /// Ignored, as in upstream; set the field in `template.spec` or in the apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<SecretRef>,
}

spec_may_be_absent!(WorkspaceTemplateSpec);

/// The template and its documentation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateDefinition {
    /// Documentation of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<WorkspaceTemplateMeta>,
    /// The workspace to create.
    pub spec: WorkspaceSpec,
}

/// Documentation of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateMeta {
    /// Description of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Version of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Free-form tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// A workspace, compatible with Crossplane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// Terraform parameters.
    pub for_provider: WorkspaceParameters,
    /// What happens to the resources when the apply is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Allowed operations on the resources.
    #[serde(default = "all_policies")]
    pub management_policies: Vec<ManagementPolicy>,
    /// Reference to the `CAPTIdentity`.
    #[serde(default)]
    pub provider_config_ref: ProviderConfigRef,
    /// The Secret that receives the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<SecretRef>,
    /// An external secret store for the outputs. Not supported; rejected by the validator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_connection_details_to: Option<PublishConnectionDetailsTo>,
}

fn all_policies() -> Vec<ManagementPolicy> {
    vec![ManagementPolicy::All]
}

/// Terraform parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceParameters {
    /// Whether `module` is an address or the configuration itself.
    pub source: ModuleSource,
    /// Module address (Remote), or the content of main.tf (Inline).
    pub module: String,
    /// Language of an Inline module; defaults to HCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_format: Option<FileFormat>,
    /// Subdirectory of the module in which terraform runs.
    #[serde(default)]
    pub entrypoint: String,
    /// Variables as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<Var>,
    /// Variables from files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<VarFile>,
    /// Variables as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub varmap: Option<Value>,
    /// Environment variables of terraform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Extra arguments of `terraform init`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_args: Vec<String>,
    /// Extra arguments of `terraform plan`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan_args: Vec<String>,
    /// Extra arguments of `terraform apply`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply_args: Vec<String>,
    /// Extra arguments of `terraform destroy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destroy_args: Vec<String>,
    /// Whether terraform's own output is copied to the operator's log.
    #[serde(default, rename = "enableTerraformCLILogging", skip_serializing_if = "Option::is_none")]
    pub enable_terraform_cli_logging: Option<bool>,
}

/// Source of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModuleSource {
    /// Fetched from an address.
    Remote,
    /// Inline in the template.
    #[default]
    Inline,
}

/// A language of Terraform files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum FileFormat {
    /// HCL.
    #[default]
    Hcl,
    /// JSON.
    Json,
}

/// A variable as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Var {
    /// Name of the variable.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// A variable file from a key of a `ConfigMap` or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VarFile {
    /// Which of the two references is used.
    pub source: VarFileSource,
    /// The file's language.
    #[serde(default)]
    pub format: FileFormat,
    /// The key of a `ConfigMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// The key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// Source of a variable file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VarFileSource {
    /// A key of a `ConfigMap`.
    #[default]
    ConfigMapKey,
    /// A key of a Secret.
    SecretKey,
}

/// An environment variable of terraform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Name of the variable.
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value, from a `ConfigMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// Its value, from a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// What happens to resources when their apply is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They are retained.
    Orphan,
    /// They are destroyed.
    #[default]
    Delete,
}

/// An allowed operation on resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ManagementPolicy {
    /// Read.
    Observe,
    /// Create.
    Create,
    /// Update.
    Update,
    /// Destroy.
    Delete,
    /// Set unset fields from existing resources.
    LateInitialize,
    /// All operations.
    #[serde(rename = "*")]
    All,
}

/// Crossplane's provider configuration reference: the name of a `CAPTIdentity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigRef {
    /// Name of the identity.
    pub name: String,
    /// Crossplane's resolution policy. Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ReferencePolicy>,
}

impl Default for ProviderConfigRef {
    fn default() -> Self {
        Self { name: "default".to_owned(), policy: None }
    }
}

/// Crossplane's resolution policy of a reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferencePolicy {
    /// Whether the target is required.
    #[serde(default)]
    pub resolution: Resolution,
    /// When the reference is resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Resolve>,
}

/// Whether the target of a reference is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Resolution {
    /// Required.
    #[default]
    Required,
    /// Optional.
    Optional,
}

/// When a reference is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Resolve {
    /// On every reconcile.
    Always,
    /// Only once.
    IfNotPresent,
}

/// An external secret store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishConnectionDetailsTo {
    /// Name of the entry.
    pub name: String,
    /// Configuration of the store.
    #[serde(default)]
    pub config_ref: ProviderConfigRef,
    /// Metadata of the stored outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PublishMeta>,
}

/// Metadata of outputs in an external secret store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishMeta {
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Type of the Secret.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub secret_type: Option<String>,
}

/// Observed state of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateObjectStatus {
    /// Ignored, as in upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
