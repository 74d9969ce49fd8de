//! The little that we read of kinds that are not ours.

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
    /// What it is made of.
    #[serde(default)]
    pub spec: ClusterSpec,
}

/// What a Cluster is made of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Its network.
    pub infrastructure_ref: Option<ObjectRef>,
    /// Its control plane.
    pub control_plane_ref: Option<ObjectRef>,
    /// Whether it is left alone.
    #[serde(default)]
    pub paused: bool,
    /// Its class, which only Cluster API itself can expand.
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
    /// Namespace; the Cluster's own if left out.
    pub namespace: Option<String>,
}

impl ObjectRef {
    /// The group, however it is written.
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
    /// Its texts.
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
    /// Values that are written in base64.
    #[serde(default)]
    data: BTreeMap<String, Encoded>,
    /// Values that are written plainly. They win.
    #[serde(default)]
    string_data: BTreeMap<String, Plain>,
}

impl Secret {
    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&SecretValue> {
        let plain = self.string_data.get(key).map(|Plain(value)| value);
        plain.or_else(|| self.data.get(key).map(|Encoded(value)| value))
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let more = self.data.keys().filter(|key| !self.string_data.contains_key(*key));
        self.string_data.keys().chain(more).map(String::as_str)
    }
}

/// A value that is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretValue(Vec<u8>);

impl SecretValue {
    /// The value, for the one place that writes it down.
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
struct Encoded(SecretValue);

#[derive(Clone, Debug, PartialEq)]
struct Plain(SecretValue);

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = secret_text(deserializer)?;
        // The decoder's own message quotes the offending byte.
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text.split_ascii_whitespace().collect::<String>())
            .map_err(|_| de::Error::custom("is not base64"))?;
        Ok(Self(SecretValue(bytes)))
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        secret_text(deserializer).map(|text| Self(SecretValue(text.into_bytes())))
    }
}

/// A string, or an error that does not repeat what stands there instead.
fn secret_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Ok(text),
        _ => Err(de::Error::custom("is not a string")),
    }
}
