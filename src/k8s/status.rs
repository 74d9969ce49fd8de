//! Status: written only if it says something new, and only on the very object that it was made from.

use kube::{Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{call::Kube, error::K8sError, objects::deed_on};

/// What became of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It said the same; nothing was sent.
    Unchanged,
    /// It was written.
    Changed,
}

/// The new status as JSON, if it says something else than the old one. No status and an empty one say the same.
pub fn changed<S: Serialize>(old: Option<&S>, new: &S) -> Result<Option<Value>, serde_json::Error> {
    let new = serde_json::to_value(new)?;
    let old = match old {
        Some(old) => serde_json::to_value(old)?,
        None => json!({}),
    };
    Ok((old != new).then_some(new))
}

impl Kube {
    /// Writes the status of `object`, of which `old` is what it says now. If the object is not the version any more that
    /// we saw, nothing is written and the error is a conflict.
    pub async fn write_status<K, S>(&self, object: &K, old: Option<&S>, new: &S) -> Result<Written, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
        S: Serialize,
    {
        let new = changed(old, new).map_err(|source| K8sError::Unsendable {
            deed: deed_on("patch", object),
            source: source.into(),
        })?;
        let Some(new) = new else { return Ok(Written::Unchanged) };
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version()},
            {"op": "add", "path": "/status", "value": new},
        ]);
        self.patch_json(object, Some("status"), operations).await?;
        Ok(Written::Changed)
    }
}
