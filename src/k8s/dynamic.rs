//! Objects of kinds that are known only at run time, and merge patches of any.

use kube::{
    Resource, ResourceExt as _,
    core::{
        ApiResource, DynamicObject, TypeMeta,
        params::{DeleteParams, GetParams, Patch, PatchParams, Preconditions, PropagationPolicy},
        request::Request,
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    call::{Kube, path},
    error::{Deed, K8sError},
    objects::{Deleted, deed_on},
};
use crate::api::names::FIELD_MANAGER;

impl Kube {
    /// One object of this kind; none if it is not there.
    pub async fn get_dynamic(
        &self,
        kind: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, K8sError> {
        let request = path_of(kind, namespace).get(name, &GetParams::default());
        match self.send(deed("get", kind, namespace, name), request).await {
            Err(K8sError::NotFound { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// All objects of this kind in a namespace; labels as in `kubectl -l`.
    pub async fn list_dynamic(
        &self,
        kind: &ApiResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<DynamicObject>, K8sError> {
        let deed = || deed("list", kind, namespace, "");
        let mut found: Vec<DynamicObject> = self.pages_of(deed, &path_of(kind, namespace), labels).await?;
        // Items of a list do not say what they are.
        for one in &mut found {
            one.types = Some(TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() });
        }
        Ok(found)
    }

    /// Server-side apply under this name: every field of `object` becomes ours, whoever had it.
    pub async fn apply_dynamic(
        &self,
        kind: &ApiResource,
        manager: &str,
        object: &DynamicObject,
    ) -> Result<DynamicObject, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let params = PatchParams::apply(manager).force();
        let request = path_of(kind, namespace.as_deref()).patch(&name, &params, &Patch::Apply(object));
        self.send(deed("apply", kind, namespace.as_deref(), &name), request).await
    }

    /// JSON merge patch of an object of this kind. Gives the object as it is now.
    pub async fn merge_dynamic(
        &self,
        kind: &ApiResource,
        object: &DynamicObject,
        patch: Value,
    ) -> Result<DynamicObject, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let request = path_of(kind, namespace.as_deref()).patch(&name, &managed(), &Patch::Merge(patch));
        self.send(deed("patch", kind, namespace.as_deref(), &name), request).await
    }

    /// Deletes this very object of this kind, its dependents after it. What is gone already is no error.
    pub async fn delete_dynamic(
        &self,
        kind: &ApiResource,
        object: &DynamicObject,
    ) -> Result<Deleted, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: object.uid().map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = path_of(kind, namespace.as_deref()).delete(&name, &params);
        match self.send::<Value>(deed("delete", kind, namespace.as_deref(), &name), request).await {
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => Ok(Deleted::Going),
            Ok(_) | Err(K8sError::NotFound { .. }) => Ok(Deleted::Gone),
            Err(error) => Err(error),
        }
    }

    /// JSON merge patch of an object. Gives the object as it is now.
    pub async fn merge<K>(&self, object: &K, patch: Value) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let request = path::<K>(object.meta().namespace.as_deref()).patch(
            &object.name_any(),
            &managed(),
            &Patch::Merge(patch),
        );
        self.send(deed_on("patch", object), request).await
    }
}

fn managed() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

pub(super) fn path_of(kind: &ApiResource, namespace: Option<&str>) -> Request {
    Request::new(DynamicObject::url_path(kind, namespace))
}

pub(super) fn deed(verb: &'static str, kind: &ApiResource, namespace: Option<&str>, name: &str) -> Deed {
    let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    Deed { verb, what: format!("{} {place}{name}", kind.kind) }
}
