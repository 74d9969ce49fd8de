//! Changes of finalizers, annotations and owner references that preserve concurrent changes of others.
//!
//! A field is replaced by a JSON patch that tests its previous value. On a conflict the object is read again and the change
//! recomputed. No-op changes are not sent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{error::K8sError, kube_client::KubeClient, objects::object_operation};

/// Attempts after conflicts.
const ATTEMPTS: usize = 5;

/// A metadata field with its old and new value.
struct MetadataEdit {
    field: &'static str,
    old: Value,
    new: Value,
}

impl MetadataEdit {
    /// `None` if nothing changes.
    fn between<T>(field: &'static str, old: Option<&T>, new: &T) -> Option<Self>
    where
        T: Serialize + PartialEq + Default,
    {
        let is_same = old.map_or_else(|| *new == T::default(), |old| old == new);
        // A test for null matches an absent field.
        (!is_same).then(|| Self { field, old: json!(old), new: json!(new) })
    }

    fn operations(&self, uid: Option<&str>) -> Value {
        let path = format!("/metadata/{}", self.field);
        let mut operations = vec![
            json!({"op": "test", "path": path, "value": self.old}),
            json!({"op": "add", "path": path, "value": self.new}),
        ];
        if let Some(uid) = uid {
            operations.insert(0, json!({"op": "test", "path": "/metadata/uid", "value": uid}));
        }
        Value::Array(operations)
    }
}

impl KubeClient {
    /// Adds a finalizer if it is missing; returns the updated object.
    pub async fn add_finalizer<K>(&self, object: &K, finalizer: &str) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let found = self
            .edit_metadata(object, |meta| {
                let mut list = meta.finalizers.clone().unwrap_or_default();
                if !list.iter().any(|one| one == finalizer) {
                    list.push(finalizer.to_owned());
                }
                MetadataEdit::between("finalizers", meta.finalizers.as_ref(), &list)
            })
            .await?;
        found.ok_or_else(|| K8sError::NotFound { operation: object_operation("patch", object) })
    }

    /// Removes the finalizers in one patch; returns `None` if the object is gone, before or because of it.
    pub async fn remove_finalizers<K>(&self, object: &K, finalizers: &[&str]) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let left = self
            .edit_metadata(object, |meta| {
                let mut list = meta.finalizers.clone().unwrap_or_default();
                list.retain(|one| !finalizers.contains(&one.as_str()));
                MetadataEdit::between("finalizers", meta.finalizers.as_ref(), &list)
            })
            .await?;
        let is_released = |meta: &ObjectMeta| {
            meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        };
        Ok(left.filter(|object| !is_released(object.meta())))
    }

    /// Adds an owner reference, or replaces the one with the same UID.
    pub async fn set_owner<K>(&self, object: &K, owner: &OwnerReference) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let found = self
            .edit_metadata(object, |meta| {
                let mut list = meta.owner_references.clone().unwrap_or_default();
                match list.iter_mut().find(|one| one.uid == owner.uid) {
                    Some(place) => *place = owner.clone(),
                    None => list.push(owner.clone()),
                }
                MetadataEdit::between("ownerReferences", meta.owner_references.as_ref(), &list)
            })
            .await?;
        found.ok_or_else(|| K8sError::NotFound { operation: object_operation("patch", object) })
    }

    /// Removes the owner reference with this UID; returns `None` if the object is gone.
    pub async fn remove_owner<K>(&self, object: &K, owner_uid: &str) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        self.edit_metadata(object, |meta| {
            let mut list = meta.owner_references.clone().unwrap_or_default();
            list.retain(|one| one.uid != owner_uid);
            MetadataEdit::between("ownerReferences", meta.owner_references.as_ref(), &list)
        })
        .await
    }

    /// Sets an annotation if its value differs.
    pub async fn set_annotation<K>(&self, object: &K, key: &str, value: &str) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let found = self
            .edit_metadata(object, |meta| {
                let mut map = meta.annotations.clone().unwrap_or_default();
                map.insert(key.to_owned(), value.to_owned());
                MetadataEdit::between("annotations", meta.annotations.as_ref(), &map)
            })
            .await?;
        found.ok_or_else(|| K8sError::NotFound { operation: object_operation("patch", object) })
    }

    /// Removes an annotation; returns `None` if the object is gone.
    pub async fn remove_annotation<K>(&self, object: &K, key: &str) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        self.edit_metadata(object, |meta| {
            let mut map = meta.annotations.clone().unwrap_or_default();
            map.remove(key);
            MetadataEdit::between("annotations", meta.annotations.as_ref(), &map)
        })
        .await
    }

    /// Computes and writes a change, retrying on conflicts; returns `None` if the object is gone.
    async fn edit_metadata<K>(
        &self,
        object: &K,
        work_out: impl Fn(&ObjectMeta) -> Option<MetadataEdit>,
    ) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let uid = object.uid();
        let mut seen = object.clone();
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let Some(edit) = work_out(seen.meta()) else { return Ok(Some(seen)) };
            match self.patch_json(&seen, None, edit.operations(uid.as_deref())).await {
                Ok(now) => return Ok(Some(now)),
                Err(K8sError::NotFound { .. }) => return Ok(None),
                Err(error) if !error.is_conflict() || left == 0 => return Err(error),
                Err(_) => {}
            }
            match self.get::<K>(object.namespace().as_deref(), &object.name_any()).await? {
                Some(now) if now.uid() == uid => seen = now,
                _ => return Ok(None),
            }
        }
    }
}
