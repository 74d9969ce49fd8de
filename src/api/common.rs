//! References and small shapes that several kinds use.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `WorkspaceTemplate` to use. Without a namespace it is looked for beside the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRef {
    /// Name of the template.
    pub name: String,
    /// Namespace of the template; the referring object's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A Secret by name and namespace.
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
    /// Namespace of the workspace; the referring object's own if left out.
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

/// The cluster-scoped `CAPTIdentity` whose AWS credentials are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// Name of the identity.
    #[schemars(length(min = 1, max = 253), regex(pattern = super::schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// The endpoint of a control plane as upstream stores it: both fields are there, and both may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiEndpoint {
    /// Host name without a scheme. Empty until the cluster has one.
    pub host: String,
    /// Port. Zero until the cluster has one.
    pub port: i32,
}

/// The endpoint field of an infrastructure cluster in contract v1beta2: optional, and never zero.
/// EKS gives the endpoint to the control plane, so this provider leaves the field alone; it is here because the contract allows users to set it.
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

/// Labels and annotations that a template gives to the objects made from it.
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

/// Where an object is in its life. One word for people; programs read the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The first apply has not ended yet.
    Creating,
    /// A later change is being applied.
    Updating,
    /// Everything asked for exists.
    Ready,
    /// Something needs a change by a person.
    Failed,
    /// Resources are being destroyed.
    Deleting,
}
