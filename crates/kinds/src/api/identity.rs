//! `CAPTIdentity`: AWS credentials and the namespaces that may use them; the target of a template's `providerConfigRef`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{absent_spec::spec_may_be_absent, common::SecretRef, schema};

/// AWS credentials and the namespaces that may use them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTIdentity",
    root = "CaptIdentity",
    plural = "captidentities",
    status = "CaptIdentityStatus",
    derive = "PartialEq",
    doc = "AWS credentials, the role to assume with them, and the namespaces that may use them.",
    category = "cluster-api",
    printcolumn(name = "SOURCE", type_ = "string", json_path = ".spec.source"),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "ACCOUNT", type_ = "string", json_path = ".status.account"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(
    validation = Rule::new("(self.source == 'Secret') == has(self.secretRef)")
        .message("source Secret needs secretRef, and no other source has one").field_path(".secretRef"),
    validation = Rule::new("(self.source == 'WebIdentity') == has(self.webIdentity)")
        .message("source WebIdentity needs webIdentity, and no other source has one").field_path(".webIdentity"),
)]
pub struct CaptIdentitySpec {
    /// Source of the initial credentials.
    #[serde(default)]
    pub source: IdentitySource,
    /// Secret with the keys `accessKeyID`, `secretAccessKey` and optionally `sessionToken`, or `credentials` (an ini file).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Web identity token to exchange for credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_identity: Option<WebIdentity>,
    /// Roles to assume, chained: each with the credentials of the previous one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub assume_roles: Vec<AssumeRole>,
    /// Namespaces that may use this identity. Omitted: none. Empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// HCL added to every workspace, as in Crossplane's provider configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// HCL of a backend that replaces the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_file: Option<String>,
    /// Files written beside the configuration, such as `aws-creds.ini`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["filename".into()]))]
    pub credential_files: Vec<CredentialFile>,
}

spec_may_be_absent!(CaptIdentitySpec);

/// Source of credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IdentitySource {
    /// The operator's default AWS credential chain.
    #[default]
    Default,
    /// A Secret.
    Secret,
    /// A web identity token of the operator's pod.
    WebIdentity,
}

/// A web identity token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebIdentity {
    /// The role to assume with the token.
    #[schemars(length(max = 2048), regex(pattern = schema::ROLE_ARN))]
    pub role_arn: String,
    /// Path of the token file.
    #[schemars(length(min = 1, max = 4096))]
    pub token_file: String,
}

/// A role to assume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssumeRole {
    /// The role.
    #[schemars(length(max = 2048), regex(pattern = schema::ROLE_ARN))]
    pub role_arn: String,
    /// External id required by the role's trust policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 1224))]
    pub external_id: Option<String>,
    /// Lifetime of the credentials; defaults to an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 900, max = 43200))]
    pub duration_seconds: Option<i32>,
    /// Session tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub session_tags: BTreeMap<String, String>,
}

/// Namespaces that may use an identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// By name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub list: Vec<String>,
    /// By label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A file written beside the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialFile {
    /// Name of the file.
    #[schemars(length(min = 1, max = 128), regex(pattern = schema::FILE_NAME))]
    pub filename: String,
    /// The Secret.
    pub secret_ref: SecretRef,
    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Observed state of an identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptIdentityStatus {
    /// The AWS account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// ARN of the caller identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
