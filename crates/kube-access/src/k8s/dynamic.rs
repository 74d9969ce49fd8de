//! Objects of kinds known only at run time, and merge patches.

use capt_kinds::api::names::FIELD_MANAGER;
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
    error::{ApiOperation, K8sError},
    kube_client::{KubeClient, kind_request},
    objects::{DeleteOutcome, object_operation},
};

impl KubeClient {
    /// Reads an object of this kind; `None` if it does not exist.
    pub async fn get_dynamic(
        &self,
        kind: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, K8sError> {
        let request = dynamic_request(kind, namespace).get(name, &GetParams::default());
        match self.send(dynamic_operation("get", kind, namespace, name), request).await {
            Err(K8sError::NotFound { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Lists the objects of this kind; label selector as in `kubectl -l`.
    pub async fn list_dynamic(
        &self,
        kind: &ApiResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<DynamicObject>, K8sError> {
        let operation = || dynamic_operation("list", kind, namespace, "");
        let mut found: Vec<DynamicObject> =
            self.list_dynamic_pages(operation, &dynamic_request(kind, namespace), labels).await?;
        // List items carry no apiVersion and kind.
        for one in &mut found {
            one.types = Some(TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() });
        }
        Ok(found)
    }

    /// Server-side apply with this field manager, forcing conflicts.
    pub async fn apply_dynamic(
        &self,
        kind: &ApiResource,
        manager: &str,
        object: &DynamicObject,
    ) -> Result<DynamicObject, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let params = PatchParams::apply(manager).force();
        let request =
            dynamic_request(kind, namespace.as_deref()).patch(&name, &params, &Patch::Apply(object));
        self.send(dynamic_operation("apply", kind, namespace.as_deref(), &name), request).await
    }

    /// JSON merge patch of an object of this kind; returns the updated object.
    pub async fn merge_patch_dynamic(
        &self,
        kind: &ApiResource,
        object: &DynamicObject,
        patch: Value,
    ) -> Result<DynamicObject, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let request =
            dynamic_request(kind, namespace.as_deref()).patch(&name, &patch_params(), &Patch::Merge(patch));
        self.send(dynamic_operation("patch", kind, namespace.as_deref(), &name), request).await
    }

    /// Deletes this object (UID precondition) with background propagation. A missing object is no error.
    pub async fn delete_dynamic(
        &self,
        kind: &ApiResource,
        object: &DynamicObject,
    ) -> Result<DeleteOutcome, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: object.uid().map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = dynamic_request(kind, namespace.as_deref()).delete(&name, &params);
        match self
            .send::<Value>(dynamic_operation("delete", kind, namespace.as_deref(), &name), request)
            .await
        {
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => {
                Ok(DeleteOutcome::Terminating)
            }
            Ok(_) | Err(K8sError::NotFound { .. }) => Ok(DeleteOutcome::Gone),
            Err(error) => Err(error),
        }
    }

    /// JSON merge patch of an object; returns the updated object.
    pub async fn merge_patch<K>(&self, object: &K, patch: Value) -> Result<K, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let request = kind_request::<K>(object.meta().namespace.as_deref()).patch(
            &object.name_any(),
            &patch_params(),
            &Patch::Merge(patch),
        );
        self.send(object_operation("patch", object), request).await
    }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

pub(super) fn dynamic_request(kind: &ApiResource, namespace: Option<&str>) -> Request {
    Request::new(DynamicObject::url_path(kind, namespace))
}

pub(super) fn dynamic_operation(
    verb: &'static str,
    kind: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> ApiOperation {
    let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    ApiOperation { verb, target: format!("{} {place}{name}", kind.kind) }
}
