//! References and types that several kinds share.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reference to a `WorkspaceTemplate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRef {
    /// Name of the template.
    pub name: String,
    /// Namespace of the template; defaults to that of the referring object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
}

/// A workspace to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRef {
    /// Name of the workspace.
    pub name: String,
    /// Namespace of the workspace; defaults to that of the referring object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// One key of a `ConfigMap` or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Key inside the object.
    pub key: String,
}

/// Reference to the cluster-scoped `CAPTIdentity` whose AWS credentials are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// Name of the identity.
    #[schemars(length(min = 1, max = 253), regex(pattern = super::schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// Endpoint of a control plane as stored by upstream: both fields are present and may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiEndpoint {
    /// Host name without a scheme. Empty until known.
    pub host: String,
    /// Port. Zero until known.
    pub port: i32,
}

/// Endpoint of an infrastructure cluster in contract v1beta2: optional, and never zero.
/// EKS endpoints are set on the control plane, so this provider does not write the field; the contract allows users to set it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.host) || has(self.port)").message("set host or port, or leave the endpoint out"))]
pub struct ContractEndpoint {
    /// Host name without a scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub host: Option<String>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// Labels and annotations of the objects created from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels of the objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Lifecycle phase of an object. For users; programs should use the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The first apply has not finished yet.
    Creating,
    /// A change is being applied.
    Updating,
    /// All desired resources exist.
    Ready,
    /// A failure needs user action.
    Failed,
    /// Resources are being destroyed.
    Deleting,
}
