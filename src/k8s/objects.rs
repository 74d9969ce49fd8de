//! Whole objects: apply, create, replace, delete.
//!
//! For any kind, namespaced or not: where an object belongs is read off the object.

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
    call::{Kube, deed, path},
    error::{Deed, K8sError},
};
use crate::api::names::FIELD_MANAGER;

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay, without an owner.
    Orphan,
}

/// What became of an object that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is not there, or was replaced by another of its name.
    Gone,
    /// It is being deleted and waits for its finalizers.
    Going,
}

impl Kube {
    /// Server-side apply: every field of `object` becomes ours, whoever had it. Gives the object as it is now.
    pub async fn apply<K>(&self, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.apply_as(FIELD_MANAGER, object).await
    }

    /// The same under another name, for objects that are told apart by it from those around them.
    pub async fn apply_as<K>(&self, manager: &str, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let deed = deed_on("apply", object);
        let mut body = to_value(&deed, object)?;
        // Whoever applies must not tell who manages what.
        if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.shift_remove("managedFields");
        }
        let params = PatchParams::apply(manager).force();
        let request = path_of(object).patch(&object.name_any(), &params, &Patch::Apply(&body));
        self.send(deed, request).await
    }

    /// Makes an object that is not there yet. One that is gives a conflict.
    pub async fn create<K>(&self, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let deed = deed_on("create", object);
        let body = to_bytes(&deed, object)?;
        self.send(deed, path_of(object).create(&post(), body)).await
    }

    /// Replaces an object whole. With a resource version in it, only that very version is replaced.
    pub async fn replace<K>(&self, object: &K) -> Result<K, K8sError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let deed = deed_on("update", object);
        let body = to_bytes(&deed, object)?;
        self.send(deed, path_of(object).replace(&object.name_any(), &post(), body)).await
    }

    /// Deletes this very object; another of its name is left alone. What is gone already is no error.
    pub async fn delete<K>(&self, object: &K, removal: Removal) -> Result<Deleted, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let params = DeleteParams {
            propagation_policy: Some(match removal {
                Removal::Background => PropagationPolicy::Background,
                Removal::Foreground => PropagationPolicy::Foreground,
                Removal::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: object.uid().map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = path_of(object).delete(&object.name_any(), &params);
        match self.send::<Value>(deed_on("delete", object), request).await {
            // The object itself comes back while it waits for finalizers, a Status once it is gone.
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => Ok(Deleted::Going),
            Ok(_) | Err(K8sError::NotFound { .. }) => Ok(Deleted::Gone),
            Err(conflict) if conflict.is_conflict() && !self.is_there(object).await? => Ok(Deleted::Gone),
            Err(error) => Err(error),
        }
    }

    /// Deletes this object if it still is as we saw it: one that somebody changed meanwhile stays, and gives a conflict.
    pub async fn delete_as_seen<K>(&self, object: &K) -> Result<Deleted, K8sError>
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
        let request = path_of(object).delete(&object.name_any(), &params);
        match self.send::<Value>(deed_on("delete", object), request).await {
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => Ok(Deleted::Going),
            Ok(_) | Err(K8sError::NotFound { .. }) => Ok(Deleted::Gone),
            Err(error) => Err(error),
        }
    }

    /// Whether this very object is still there.
    async fn is_there<K>(&self, object: &K) -> Result<bool, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let found: Option<K> = self.get(object.namespace().as_deref(), &object.name_any()).await?;
        Ok(found.is_some_and(|found| found.uid() == object.uid()))
    }

    /// JSON merge patch of the metadata: `patch` is what stands under `metadata`.
    pub async fn patch_metadata<K>(&self, object: &K, patch: Value) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let body = serde_json::json!({ "metadata": patch });
        let request = path_of(object).patch(&object.name_any(), &managed(), &Patch::Merge(body));
        self.send(deed_on("patch", object), request).await
    }

    /// JSON patch of the object, or of a subresource of it.
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
        let deed = deed_on("patch", object);
        let operations = serde_json::from_value(operations)
            .map_err(|source| K8sError::Unsendable { deed: deed.clone(), source: source.into() })?;
        let (name, patch) = (object.name_any(), Patch::<()>::Json(operations));
        let request = match subresource {
            None => path_of(object).patch(&name, &managed(), &patch),
            Some(part) => path_of(object).patch_subresource(part, &name, &managed(), &patch),
        };
        self.send(deed, request).await
    }
}

fn managed() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub(super) fn path_of<K: Resource>(object: &K) -> request::Request
where
    K::DynamicType: Default,
{
    path::<K>(object.meta().namespace.as_deref())
}

pub(super) fn deed_on<K: Resource>(verb: &'static str, object: &K) -> Deed
where
    K::DynamicType: Default,
{
    deed::<K>(verb, object.meta().namespace.as_deref(), &object.name_any())
}

fn to_value<K: Serialize>(deed: &Deed, object: &K) -> Result<Value, K8sError> {
    serde_json::to_value(object)
        .map_err(|source| K8sError::Unsendable { deed: deed.clone(), source: source.into() })
}

fn to_bytes<K: Serialize>(deed: &Deed, object: &K) -> Result<Vec<u8>, K8sError> {
    serde_json::to_vec(object)
        .map_err(|source| K8sError::Unsendable { deed: deed.clone(), source: source.into() })
}
