//! How a fork differs from its baseline.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{common::WorkloadRef, schema};

/// How a fork differs from its baseline. The order is: patch, images, env, resources, replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Customizations {
    /// How many pods the fork has. Not the baseline's number: a fork serves one developer.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
    /// Other images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub images: Vec<Image>,
    /// Other variables, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,
    /// Other requests and limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub resources: Vec<Resources>,
    /// Regular expressions on the keys of the baseline's pod labels; what matches is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::expressions")]
    pub preserved_labels: Vec<String>,
    /// A patch of the baseline, applied by the API server before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

impl Default for Customizations {
    fn default() -> Self {
        Self {
            replicas: one(),
            images: Vec::new(),
            env: Vec::new(),
            resources: Vec::new(),
            preserved_labels: Vec::new(),
            patch: None,
        }
    }
}

const fn one() -> i32 {
    1
}

/// Another image for a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The container; may be left out if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// The image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
}

/// Another variable for a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.value) && has(self.valueFrom))")
        .message("a variable has value or valueFrom, not both"),
    validation = Rule::new("!has(self.operation) || self.operation != 'delete' || !(has(self.value) || has(self.valueFrom))")
        .message("a variable that is deleted has no value and no valueFrom"),
)]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::ENV_NAME))]
    pub name: String,
    /// The container; may be left out if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// What to do with it.
    #[serde(default)]
    pub operation: EnvOperation,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_VALUE))]
    pub value: Option<String>,
    /// Where its value is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvFrom>,
}

/// What to do with a variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnvOperation {
    /// Set it, whether the baseline has it or not.
    #[default]
    Upsert,
    /// Remove it.
    Delete,
}

/// Where the value of a variable is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.secret), has(self.configMap), has(self.fork)].filter(it, it).size() == 1")
        .message("valueFrom needs exactly one of secret, configMap and fork"),
)]
pub struct EnvFrom {
    /// In a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<KeyOf>,
    /// In a `ConfigMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<KeyOf>,
    /// In the address of a fork of the same sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkValue>,
}

/// A key of a Secret or a `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyOf {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// Key inside the object.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// The address of a fork of the same sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkValue {
    /// The fork, by its baseline.
    pub fork_of: WorkloadRef,
    /// Text in which `{{.Service.Host}}` and `{{.Service.Port}}` stand for the fork's Service.
    #[schemars(length(min = 1, max = 1024))]
    pub expression: String,
}

/// Other requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// The container; may be left out if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// What the container asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub requests: BTreeMap<String, IntOrString>,
    /// What the container may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: BTreeMap<String, IntOrString>,
}

/// A patch of the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// Its kind.
    #[serde(rename = "type", default)]
    pub type_: PatchType,
    /// The patch, as YAML or JSON.
    #[schemars(length(min = 1, max = schema::MAX_PATCH))]
    pub value: String,
}

/// Kinds of patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchType {
    /// A strategic merge patch.
    #[default]
    Strategic,
    /// A merge patch (RFC 7396).
    Merge,
    /// A list of operations (RFC 6902).
    Json,
}
