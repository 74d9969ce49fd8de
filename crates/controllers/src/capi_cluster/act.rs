//! Executes decisions through the API server.

use capt_kube::k8s::{DeleteOutcome, K8sError};
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    cluster_types::{Cluster, ClusterEndpoint},
    decide::ClusterDeletionStep,
    dereference::ClusterReferences,
    referenced_object::{ReferencedObject, ResolvedReference},
};
use crate::common::Context;

/// Finalizer of Cluster API's Cluster controller, which this controller replaces.
pub(super) const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// Whether the Cluster has the finalizer.
pub(super) fn has_finalizer(cluster: &Cluster) -> bool {
    cluster.finalizers().iter().any(|it| it == FINALIZER)
}

/// Sets the Cluster's owner reference and label on both referenced objects, and returns them as they are then.
pub(super) async fn set_ownership(
    cluster: &Cluster,
    seen: ClusterReferences,
    ctx: &Context,
) -> Result<ClusterReferences, K8sError> {
    let ClusterReferences { infrastructure, control_plane } = seen;
    Ok(ClusterReferences {
        infrastructure: own_object(cluster, infrastructure, ctx).await?,
        control_plane: own_object(cluster, control_plane, ctx).await?,
    })
}

async fn own_object(
    cluster: &Cluster,
    part: ResolvedReference,
    ctx: &Context,
) -> Result<ResolvedReference, K8sError> {
    let ResolvedReference::Found(thing) = part else { return Ok(part) };
    let Some(patch) = thing.ownership_patch(cluster) else { return Ok(ResolvedReference::Found(thing)) };
    let ReferencedObject { role, resource, object } = *thing;
    match ctx.kube.merge_patch_dynamic(&resource, &object, patch).await {
        Ok(object) => Ok(ResolvedReference::Found(Box::new(ReferencedObject { role, resource, object }))),
        Err(K8sError::NotFound { .. }) => Ok(ResolvedReference::Missing { kind: resource.kind }),
        Err(error) => Err(error),
    }
}

/// Sets the Cluster's API endpoint.
pub(super) async fn set_endpoint(
    cluster: Cluster,
    endpoint: Option<ClusterEndpoint>,
    ctx: &Context,
) -> Result<Cluster, K8sError> {
    match endpoint {
        Some(endpoint) => {
            ctx.kube.merge_patch(&cluster, json!({"spec": {"controlPlaneEndpoint": endpoint}})).await
        }
        None => Ok(cluster),
    }
}

/// Executes a deletion step. Returns reason and message of what the Cluster waits for; none if nothing is left.
pub(super) async fn execute_deletion_step(
    removal: ClusterDeletionStep<'_>,
    ctx: &Context,
) -> Result<Option<(&'static str, String)>, K8sError> {
    match removal {
        ClusterDeletionStep::RemoveFinalizer => Ok(None),
        ClusterDeletionStep::Wait { reason, why } => Ok(Some((reason, why))),
        ClusterDeletionStep::Delete { object: thing, reason, why } => {
            match ctx.kube.delete_dynamic(&thing.resource, &thing.object).await? {
                // An object that is already gone is noticed in the next reconcile.
                DeleteOutcome::Terminating | DeleteOutcome::Gone => Ok(Some((reason, why))),
            }
        }
    }
}
