//! Server-side dry run of patches.
//!
//! Only the API server implements strategic merge patches completely. So the patch is sent with `dryRun=All`, and the
//! response is the patched object.

use kube::{
    ResourceExt as _,
    core::{
        ApiResource, DynamicObject,
        params::{Patch, PatchParams},
    },
};
use serde_json::Value;

use super::{
    dynamic::{dynamic_operation, dynamic_request},
    error::K8sError,
    kube_client::KubeClient,
};

/// Type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// Strategic merge patch, as in `kubectl patch`.
    Strategic,
    /// JSON merge patch (RFC 7396).
    Merge,
    /// JSON patch (RFC 6902).
    Json,
}

impl KubeClient {
    /// The object after this patch, without writing it.
    pub async fn dry_run_patch(
        &self,
        kind: &ApiResource,
        object: &DynamicObject,
        meaning: PatchKind,
        patch: Value,
    ) -> Result<DynamicObject, K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let operation = dynamic_operation("patch", kind, namespace.as_deref(), &name);
        let patch = match meaning {
            PatchKind::Strategic => Patch::Strategic(patch),
            PatchKind::Merge => Patch::Merge(patch),
            PatchKind::Json => {
                let operations = serde_json::from_value(patch);
                Patch::Json(operations.map_err(|source| K8sError::Unsendable {
                    operation: operation.clone(),
                    source: source.into(),
                })?)
            }
        };
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let request = dynamic_request(kind, namespace.as_deref()).patch(&name, &params, &patch);
        self.send(operation, request).await
    }

    /// Whether the API server would accept a server-side apply of this object.
    pub async fn dry_run_apply(
        &self,
        kind: &ApiResource,
        manager: &str,
        object: &DynamicObject,
    ) -> Result<(), K8sError> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let params = PatchParams { dry_run: true, ..PatchParams::apply(manager).force() };
        let request =
            dynamic_request(kind, namespace.as_deref()).patch(&name, &params, &Patch::Apply(object));
        self.send::<Value>(dynamic_operation("apply", kind, namespace.as_deref(), &name), request)
            .await
            .map(drop)
    }
}
