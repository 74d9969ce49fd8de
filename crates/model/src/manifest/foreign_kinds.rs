//! The fields that capt reads of foreign kinds: Cluster, `ConfigMap`, Secret.

use std::{collections::BTreeMap, fmt};

use base64::Engine as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, de};

/// A Cluster of Cluster API, v1beta1 or v1beta2.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// References to infrastructure and control plane.
    #[serde(default)]
    pub spec: ClusterSpec,
}

/// References of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Its infrastructure (network).
    pub infrastructure_ref: Option<ObjectRef>,
    /// Its control plane.
    pub control_plane_ref: Option<ObjectRef>,
    /// Whether reconciliation is paused.
    #[serde(default)]
    pub paused: bool,
    /// Its `ClusterClass` topology, which only Cluster API can expand.
    pub topology: Option<serde_json::Value>,
}

/// A reference to another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Group and version (v1beta1).
    pub api_version: Option<String>,
    /// Group (v1beta2).
    pub api_group: Option<String>,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace; defaults to that of the Cluster.
    pub namespace: Option<String>,
}

impl ObjectRef {
    /// The API group, from either field.
    pub fn group(&self) -> &str {
        let written = self.api_group.as_deref().or(self.api_version.as_deref()).unwrap_or_default();
        written.split('/').next().unwrap_or_default()
    }
}

/// A `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Its data.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

/// A Secret, decoded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Its type.
    #[serde(default, rename = "type")]
    pub secret_type: String,
    /// Base64-encoded values.
    #[serde(default)]
    data: BTreeMap<String, Base64Value>,
    /// Plain values, which take precedence.
    #[serde(default)]
    string_data: BTreeMap<String, PlainValue>,
}

impl Secret {
    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&SecretValue> {
        let plain = self.string_data.get(key).map(|PlainValue(value)| value);
        plain.or_else(|| self.data.get(key).map(|Base64Value(value)| value))
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let more = self.data.keys().filter(|key| !self.string_data.contains_key(*key));
        self.string_data.keys().chain(more).map(String::as_str)
    }
}

/// A redacted value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretValue(Vec<u8>);

impl SecretValue {
    /// Exposes the value.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Base64Value(SecretValue);

#[derive(Clone, Debug, PartialEq)]
struct PlainValue(SecretValue);

impl<'de> Deserialize<'de> for Base64Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = secret_text(deserializer)?;
        // The decoder's own message would quote a byte of the secret.
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text.split_ascii_whitespace().collect::<String>())
            .map_err(|_| de::Error::custom("is not base64"))?;
        Ok(Self(SecretValue(bytes)))
    }
}

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        secret_text(deserializer).map(|text| Self(SecretValue(text.into_bytes())))
    }
}

/// A string, or an error that does not quote the value.
fn secret_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Ok(text),
        _ => Err(de::Error::custom("is not a string")),
    }
}
