//! Status updates: written only if changed, and only on the version that they were computed from.

use kube::{Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{error::K8sError, kube_client::KubeClient, objects::object_operation};

/// Result of a status update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrite {
    /// Equal to the stored status; nothing was sent.
    Unchanged,
    /// It was written.
    Changed,
}

/// The new status as JSON if it differs from the old one. No status equals an empty one.
pub fn changed_status<S: Serialize>(old: Option<&S>, new: &S) -> Result<Option<Value>, serde_json::Error> {
    let new = serde_json::to_value(new)?;
    let old = match old {
        Some(old) => serde_json::to_value(old)?,
        None => json!({}),
    };
    Ok((old != new).then_some(new))
}

impl KubeClient {
    /// Writes the status of `object` if it differs from `old`. Fails with a conflict if the object's resourceVersion changed.
    pub async fn write_status<K, S>(
        &self,
        object: &K,
        old: Option<&S>,
        new: &S,
    ) -> Result<StatusWrite, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
        S: Serialize,
    {
        let new = changed_status(old, new).map_err(|source| K8sError::Unsendable {
            operation: object_operation("patch", object),
            source: source.into(),
        })?;
        let Some(new) = new else { return Ok(StatusWrite::Unchanged) };
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version()},
            {"op": "add", "path": "/status", "value": new},
        ]);
        self.patch_json(object, Some("status"), operations).await?;
        Ok(StatusWrite::Changed)
    }
}
