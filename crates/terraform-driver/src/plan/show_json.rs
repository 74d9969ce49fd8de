//! The JSON of a plan, as much of it as decides something.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct PlanFile {
    pub(super) format_version: String,
    #[serde(default)]
    pub(super) errored: bool,
    #[serde(default)]
    pub(super) resource_changes: Vec<ResourceChange>,
    #[serde(default)]
    pub(super) resource_drift: Vec<ResourceChange>,
    #[serde(default)]
    pub(super) output_changes: BTreeMap<String, Body>,
}

/// `address`, `type` and `change` have no default on purpose: an entry without them cannot be judged, so the plan
/// is refused.
#[derive(Deserialize, Serialize)]
pub(super) struct ResourceChange {
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
    pub(super) change: Body,
}

impl ResourceChange {
    /// Anything that is not plainly a data source is taken for a managed object.
    pub(super) fn is_managed(&self) -> bool {
        self.mode != "data"
    }
}

#[derive(Deserialize, Serialize)]
pub(super) struct Body {
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
