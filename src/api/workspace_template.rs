//! `WorkspaceTemplate`: a piece of Terraform that a user brings. Its inner spec is a Crossplane Workspace's, verbatim.

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

/// A piece of Terraform that a user brings.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "WorkspaceTemplate",
    plural = "workspacetemplates",
    namespaced,
    status = "WorkspaceTemplateObjectStatus",
    derive = "PartialEq",
    doc = "A piece of Terraform that WorkspaceTemplateApply objects run.",
    printcolumn(name = "WORKSPACE", type_ = "string", json_path = ".status.workspaceName"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct WorkspaceTemplateSpec {
    /// The template.
    pub template: WorkspaceTemplateDefinition,
    /// Not used, as in upstream: the one inside `template.spec`, or the apply's, is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<SecretRef>,
}

spec_may_be_absent!(WorkspaceTemplateSpec);

/// The template and what is to be known about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateDefinition {
    /// Documentation of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<WorkspaceTemplateMeta>,
    /// The workspace to make.
    pub spec: WorkspaceSpec,
}

/// Documentation of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateMeta {
    /// What the template makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Version of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// A workspace, in the shape of Crossplane's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// What Terraform is given.
    pub for_provider: WorkspaceParameters,
    /// What happens to the resources when the apply is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What may be done with the resources.
    #[serde(default = "all_policies")]
    pub management_policies: Vec<ManagementPolicy>,
    /// The `CAPTIdentity` to use.
    #[serde(default)]
    pub provider_config_ref: ProviderConfigRef,
    /// The Secret that gets the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<SecretRef>,
    /// An external store that gets the outputs. Read, not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_connection_details_to: Option<PublishConnectionDetailsTo>,
}

fn all_policies() -> Vec<ManagementPolicy> {
    vec![ManagementPolicy::All]
}

/// What Terraform is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceParameters {
    /// Whether `module` is an address or the configuration itself.
    pub source: ModuleSource,
    /// An address that terraform can fetch (Remote), or the whole of main.tf (Inline).
    pub module: String,
    /// The language of an Inline module; HCL if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_format: Option<FileFormat>,
    /// Directory below the module in which terraform runs.
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
    /// Environment of terraform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// More arguments of `terraform init`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_args: Vec<String>,
    /// More arguments of `terraform plan`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan_args: Vec<String>,
    /// More arguments of `terraform apply`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply_args: Vec<String>,
    /// More arguments of `terraform destroy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destroy_args: Vec<String>,
    /// Whether terraform's own output is copied to the operator's log.
    #[serde(default, rename = "enableTerraformCLILogging", skip_serializing_if = "Option::is_none")]
    pub enable_terraform_cli_logging: Option<bool>,
}

/// Where a module comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModuleSource {
    /// Fetched from an address.
    Remote,
    /// Written in the template.
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

/// A file of variables, from a key of a `ConfigMap` or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VarFile {
    /// Which of the two references is meant.
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

/// Where a file of variables comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VarFileSource {
    /// A key of a `ConfigMap`.
    #[default]
    ConfigMapKey,
    /// A key of a Secret.
    SecretKey,
}

/// A variable of terraform's environment.
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
    /// They are left alone.
    Orphan,
    /// They are destroyed.
    #[default]
    Delete,
}

/// Something that may be done with resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ManagementPolicy {
    /// Look at them.
    Observe,
    /// Make them.
    Create,
    /// Change them.
    Update,
    /// Destroy them.
    Delete,
    /// Fill in fields from what exists.
    LateInitialize,
    /// All of these.
    #[serde(rename = "*")]
    All,
}

/// What Crossplane called a provider configuration: here the name of a `CAPTIdentity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigRef {
    /// Name of the identity.
    pub name: String,
    /// How Crossplane would resolve it. Read, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ReferencePolicy>,
}

impl Default for ProviderConfigRef {
    fn default() -> Self {
        Self { name: "default".to_owned(), policy: None }
    }
}

/// How Crossplane would resolve a reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferencePolicy {
    /// Whether it must be found.
    #[serde(default)]
    pub resolution: Resolution,
    /// When it is looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Resolve>,
}

/// Whether a reference must be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Resolution {
    /// It must.
    #[default]
    Required,
    /// It may be missing.
    Optional,
}

/// When a reference is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Resolve {
    /// Each time.
    Always,
    /// Once.
    IfNotPresent,
}

/// An external store for outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishConnectionDetailsTo {
    /// Name of the entry.
    pub name: String,
    /// Configuration of the store.
    #[serde(default)]
    pub config_ref: ProviderConfigRef,
    /// What is written beside the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PublishMeta>,
}

/// What is written beside outputs in an external store.
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

/// What was observed of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateObjectStatus {
    /// Not used, as in upstream.
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
