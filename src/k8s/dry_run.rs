//! What the API server would make of a patch, without anything being written.
//!
//! A strategic merge patch means what the API server says that it means; nobody else gets all of it right. So the patch is
//! sent as it is, with `dryRun=All`, and the answer is the object that it would give.

use kube::{
    ResourceExt as _,
    core::{
        ApiResource, DynamicObject,
        params::{Patch, PatchParams},
    },
};
use serde_json::Value;

use super::{
    call::Kube,
    dynamic::{deed, path_of},
    error::K8sError,
};

/// How a patch is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Lists merge by the keys of the kind, as in `kubectl patch`.
    Strategic,
    /// RFC 7396.
    Merge,
    /// RFC 6902.
    Json,
}

impl Kube {
    /// The object as it would be after this patch.
    pub async fn rehearse(
        &self,
        kind: &ApiResource,
        object: &DynamicObject,
        meaning: Meaning,
        patch: Value,
    ) -> Result<DynamicObject, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let deed = deed("patch", kind, namespace.as_deref(), &name);
        let patch =
            match meaning {
                Meaning::Strategic => Patch::Strategic(patch),
                Meaning::Merge => Patch::Merge(patch),
                Meaning::Json => {
                    let operations = serde_json::from_value(patch);
                    Patch::Json(operations.map_err(|source| K8sError::Unsendable {
                        deed: deed.clone(),
                        source: source.into(),
                    })?)
                }
            };
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let request = path_of(kind, namespace.as_deref()).patch(&name, &params, &patch);
        self.send(deed, request).await
    }

    /// Whether the API server would take this object from whoever applies it under this name.
    pub async fn rehearse_apply(
        &self,
        kind: &ApiResource,
        manager: &str,
        object: &DynamicObject,
    ) -> Result<(), K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let params = PatchParams { dry_run: true, ..PatchParams::apply(manager).force() };
        let request = path_of(kind, namespace.as_deref()).patch(&name, &params, &Patch::Apply(object));
        self.send::<Value>(deed("apply", kind, namespace.as_deref(), &name), request).await.map(drop)
    }
}
