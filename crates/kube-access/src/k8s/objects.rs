//! Apply, create, replace and delete objects of any kind and scope.

use capt_kinds::api::names::FIELD_MANAGER;
use kube::{
    Resource, ResourceExt,
    core::{
        params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
        request,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    error::{ApiOperation, K8sError},
    kube_client::{KubeClient, kind_operation, kind_request},
};

/// Deletion propagation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionPropagation {
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are orphaned.
    Orphan,
}

/// Result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The object is gone, or was replaced by another of its name.
    Gone,
    /// The object waits for its finalizers.
    Terminating,
}

impl KubeClient {
    /// Server-side apply with capt's field manager, forcing conflicts; returns the updated object.
    pub async fn apply<K>(&self, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.apply_as(FIELD_MANAGER, object).await
    }

    /// Server-side apply with another field manager.
    pub async fn apply_as<K>(&self, manager: &str, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let operation = object_operation("apply", object);
        let mut body = to_value(&operation, object)?;
        // The API server rejects an apply with managedFields.
        if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.shift_remove("managedFields");
        }
        let params = PatchParams::apply(manager).force();
        let request = object_request(object).patch(&object.name_any(), &params, &Patch::Apply(&body));
        self.send(operation, request).await
    }

    /// Creates an object; an existing one is a conflict.
    pub async fn create<K>(&self, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let operation = object_operation("create", object);
        let body = to_bytes(&operation, object)?;
        self.send(operation, object_request(object).create(&post_params(), body)).await
    }

    /// Replaces an object. With a resourceVersion, only that version is replaced.
    pub async fn replace<K>(&self, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let operation = object_operation("update", object);
        let body = to_bytes(&operation, object)?;
        self.send(operation, object_request(object).replace(&object.name_any(), &post_params(), body)).await
    }

    /// Deletes this object (UID precondition). A missing object is no error.
    pub async fn delete<K>(&self, object: &K, removal: DeletionPropagation) -> Result<DeleteOutcome, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let params = DeleteParams {
            propagation_policy: Some(match removal {
                DeletionPropagation::Background => PropagationPolicy::Background,
                DeletionPropagation::Foreground => PropagationPolicy::Foreground,
                DeletionPropagation::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: object.uid().map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = object_request(object).delete(&object.name_any(), &params);
        match self.send::<Value>(object_operation("delete", object), request).await {
            // The response is the object while it waits for finalizers, and a Status once it is gone.
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => {
                Ok(DeleteOutcome::Terminating)
            }
            Ok(_) | Err(K8sError::NotFound { .. }) => Ok(DeleteOutcome::Gone),
            Err(conflict) if conflict.is_conflict() && !self.exists(object).await? => Ok(DeleteOutcome::Gone),
            Err(error) => Err(error),
        }
    }

    /// Deletes this object if it is unchanged (resourceVersion precondition); otherwise a conflict.
    pub async fn delete_unchanged<K>(&self, object: &K) -> Result<DeleteOutcome, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: object.uid(),
                resource_version: object.resource_version(),
            }),
            ..DeleteParams::default()
        };
        let request = object_request(object).delete(&object.name_any(), &params);
        match self.send::<Value>(object_operation("delete", object), request).await {
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => {
                Ok(DeleteOutcome::Terminating)
            }
            Ok(_) | Err(K8sError::NotFound { .. }) => Ok(DeleteOutcome::Gone),
            Err(error) => Err(error),
        }
    }

    /// Whether the object with this UID still exists.
    async fn exists<K>(&self, object: &K) -> Result<bool, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let found: Option<K> = self.get(object.namespace().as_deref(), &object.name_any()).await?;
        Ok(found.is_some_and(|found| found.uid() == object.uid()))
    }

    /// JSON merge patch of `metadata`.
    pub async fn patch_metadata<K>(&self, object: &K, patch: Value) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let body = serde_json::json!({ "metadata": patch });
        let request = object_request(object).patch(&object.name_any(), &patch_params(), &Patch::Merge(body));
        self.send(object_operation("patch", object), request).await
    }

    /// JSON patch of the object or of a subresource.
    pub(super) async fn patch_json<K>(
        &self,
        object: &K,
        subresource: Option<&str>,
        operations: Value,
    ) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let operation = object_operation("patch", object);
        let operations = serde_json::from_value(operations)
            .map_err(|source| K8sError::Unsendable { operation: operation.clone(), source: source.into() })?;
        let (name, patch) = (object.name_any(), Patch::<()>::Json(operations));
        let request = match subresource {
            None => object_request(object).patch(&name, &patch_params(), &patch),
            Some(part) => object_request(object).patch_subresource(part, &name, &patch_params(), &patch),
        };
        self.send(operation, request).await
    }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub(super) fn object_request<K: Resource>(object: &K) -> request::Request
where
    K::DynamicType: Default,
{
    kind_request::<K>(object.meta().namespace.as_deref())
}

pub(super) fn object_operation<K: Resource>(verb: &'static str, object: &K) -> ApiOperation
where
    K::DynamicType: Default,
{
    kind_operation::<K>(verb, object.meta().namespace.as_deref(), &object.name_any())
}

fn to_value<K: Serialize>(operation: &ApiOperation, object: &K) -> Result<Value, K8sError> {
    serde_json::to_value(object)
        .map_err(|source| K8sError::Unsendable { operation: operation.clone(), source: source.into() })
}

fn to_bytes<K: Serialize>(operation: &ApiOperation, object: &K) -> Result<Vec<u8>, K8sError> {
    serde_json::to_vec(object)
        .map_err(|source| K8sError::Unsendable { operation: operation.clone(), source: source.into() })
}
