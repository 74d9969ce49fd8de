//! Finalizers, annotations and owners: small changes that must not lose anybody else's.
//!
//! A field is replaced by a JSON patch that tests what we saw of it. If somebody was faster, the object is read again and the
//! change is worked out anew; what is there already is not written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{call::Kube, error::K8sError, objects::deed_on};

/// How often a change is worked out anew because somebody was faster.
const ATTEMPTS: usize = 5;

/// A field of the metadata, as it is and as it is to be.
struct Edit {
    field: &'static str,
    old: Value,
    new: Value,
}

impl Edit {
    /// None if there is nothing to do.
    fn between<T>(field: &'static str, old: Option<&T>, new: &T) -> Option<Self>
    where
        T: Serialize + PartialEq + Default,
    {
        let is_same = old.map_or_else(|| *new == T::default(), |old| old == new);
        // A test of null holds where the field is absent.
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

impl Kube {
    /// Puts a finalizer on the object, unless it is there. Gives the object as it is now.
    pub async fn add_finalizer<K>(&self, object: &K, finalizer: &str) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let found = self
            .edit(object, |meta| {
                let mut list = meta.finalizers.clone().unwrap_or_default();
                if !list.iter().any(|one| one == finalizer) {
                    list.push(finalizer.to_owned());
                }
                Edit::between("finalizers", meta.finalizers.as_ref(), &list)
            })
            .await?;
        found.ok_or_else(|| K8sError::NotFound { deed: deed_on("patch", object) })
    }

    /// Takes finalizers off the object, all in one patch; the others stay. None if the object is gone before or by it.
    pub async fn remove_finalizers<K>(&self, object: &K, finalizers: &[&str]) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let left = self
            .edit(object, |meta| {
                let mut list = meta.finalizers.clone().unwrap_or_default();
                list.retain(|one| !finalizers.contains(&one.as_str()));
                Edit::between("finalizers", meta.finalizers.as_ref(), &list)
            })
            .await?;
        let is_released = |meta: &ObjectMeta| {
            meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        };
        Ok(left.filter(|object| !is_released(object.meta())))
    }

    /// Makes `owner` an owner of the object; an older reference to the same owner is replaced.
    pub async fn set_owner<K>(&self, object: &K, owner: &OwnerReference) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let found = self
            .edit(object, |meta| {
                let mut list = meta.owner_references.clone().unwrap_or_default();
                match list.iter_mut().find(|one| one.uid == owner.uid) {
                    Some(place) => *place = owner.clone(),
                    None => list.push(owner.clone()),
                }
                Edit::between("ownerReferences", meta.owner_references.as_ref(), &list)
            })
            .await?;
        found.ok_or_else(|| K8sError::NotFound { deed: deed_on("patch", object) })
    }

    /// Takes the owner with this uid off the object, so that the object outlives it. None if the object is gone.
    pub async fn remove_owner<K>(&self, object: &K, owner_uid: &str) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        self.edit(object, |meta| {
            let mut list = meta.owner_references.clone().unwrap_or_default();
            list.retain(|one| one.uid != owner_uid);
            Edit::between("ownerReferences", meta.owner_references.as_ref(), &list)
        })
        .await
    }

    /// Sets an annotation, unless it says this already.
    pub async fn set_annotation<K>(&self, object: &K, key: &str, value: &str) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let found = self
            .edit(object, |meta| {
                let mut map = meta.annotations.clone().unwrap_or_default();
                map.insert(key.to_owned(), value.to_owned());
                Edit::between("annotations", meta.annotations.as_ref(), &map)
            })
            .await?;
        found.ok_or_else(|| K8sError::NotFound { deed: deed_on("patch", object) })
    }

    /// Removes an annotation, if the object has it. None if the object is gone.
    pub async fn remove_annotation<K>(&self, object: &K, key: &str) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        self.edit(object, |meta| {
            let mut map = meta.annotations.clone().unwrap_or_default();
            map.remove(key);
            Edit::between("annotations", meta.annotations.as_ref(), &map)
        })
        .await
    }

    /// Works a change out and writes it, again if somebody was faster. None if the object is gone.
    async fn edit<K>(
        &self,
        object: &K,
        work_out: impl Fn(&ObjectMeta) -> Option<Edit>,
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
