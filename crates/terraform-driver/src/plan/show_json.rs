//! JSON format of `show -json`, reduced to the fields in use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct PlanJson {
    pub(super) format_version: String,
    #[serde(default)]
    pub(super) errored: bool,
    #[serde(default)]
    pub(super) resource_changes: Vec<ResourceChangeJson>,
    #[serde(default)]
    pub(super) resource_drift: Vec<ResourceChangeJson>,
    #[serde(default)]
    pub(super) output_changes: BTreeMap<String, ChangeJson>,
}

/// `address`, `type` and `change` have no default: an entry without them cannot be checked, so the plan is rejected.
#[derive(Deserialize, Serialize)]
pub(super) struct ResourceChangeJson {
    pub(super) address: String,
    #[serde(default)]
    pub(super) previous_address: Option<String>,
    #[serde(default)]
    pub(super) mode: String,
    #[serde(rename = "type")]
    pub(super) resource_type: String,
    #[serde(default)]
    pub(super) provider_name: Option<String>,
    #[serde(default)]
    pub(super) deposed: Option<String>,
    #[serde(default)]
    pub(super) action_reason: Option<String>,
    pub(super) change: ChangeJson,
}

impl ResourceChangeJson {
    /// Everything except a data source counts as managed.
    pub(super) fn is_managed(&self) -> bool {
        self.mode != "data"
    }
}

#[derive(Deserialize, Serialize)]
pub(super) struct ChangeJson {
    pub(super) actions: Vec<String>,
    #[serde(default)]
    pub(super) before: Value,
    #[serde(default)]
    pub(super) after: Value,
    #[serde(default)]
    pub(super) after_unknown: Value,
    #[serde(default)]
    pub(super) before_sensitive: Value,
    #[serde(default)]
    pub(super) after_sensitive: Value,
    #[serde(default)]
    pub(super) replace_paths: Value,
    #[serde(default)]
    pub(super) importing: Option<Value>,
}
