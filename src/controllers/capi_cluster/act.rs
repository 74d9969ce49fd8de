//! Does what was decided, in the API server.

use kube::ResourceExt as _;
use serde_json::json;

use super::{
    decide::Removal,
    dereference::Seen,
    kind::{Cluster, Endpoint},
    part::{Part, Thing},
};
use crate::{
    controllers::common::Context,
    k8s::{Deleted, K8sError},
};

/// Finalizer of Cluster API's own controller, whose part we play.
pub(super) const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// Whether the Cluster is held already.
pub(super) fn is_held(cluster: &Cluster) -> bool {
    cluster.finalizers().iter().any(|it| it == FINALIZER)
}

/// Makes both parts belong to the Cluster.
pub(super) async fn claim(cluster: &Cluster, seen: &mut Seen, ctx: &Context) -> Result<(), K8sError> {
    for part in [&mut seen.infrastructure, &mut seen.control_plane] {
        let Part::Found(thing) = part else { continue };
        let Some(patch) = thing.claim(cluster) else { continue };
        let Thing { kind, object, .. } = &**thing;
        match ctx.kube.merge_dynamic(kind, object, patch).await {
            Ok(now) => thing.object = now,
            Err(K8sError::NotFound { .. }) => *part = Part::Missing { kind: kind.kind.clone() },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tells the Cluster where its API answers.
pub(super) async fn set_endpoint(
    cluster: Cluster,
    endpoint: Option<Endpoint>,
    ctx: &Context,
) -> Result<Cluster, K8sError> {
    match endpoint {
        Some(endpoint) => ctx.kube.merge(&cluster, json!({"spec": {"controlPlaneEndpoint": endpoint}})).await,
        None => Ok(cluster),
    }
}

/// Carries a removal out. None if nothing is left; else whom the Cluster waits for.
pub(super) async fn remove(
    removal: Removal<'_>,
    ctx: &Context,
) -> Result<Option<(&'static str, String)>, K8sError> {
    match removal {
        Removal::Release => Ok(None),
        Removal::Wait { reason, why } => Ok(Some((reason, why))),
        Removal::Delete { thing, reason, why } => {
            match ctx.kube.delete_dynamic(&thing.kind, &thing.object).await? {
                // What is gone at once is seen to be gone in the next look.
                Deleted::Going | Deleted::Gone => Ok(Some((reason, why))),
            }
        }
    }
}
