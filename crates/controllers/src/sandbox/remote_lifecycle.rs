//! Starts and stops the sandbox controllers of workload clusters that no Sandbox of this cluster refers to.
//!
//! They are needed as long as a Service there is taken over, to restore it if the routers fail, or objects of our kinds exist
//! there. Both can outlive the Sandbox that started the controllers, and this process.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use capt_kinds::api::CaptControlPlane;
use capt_kinds::sandbox::{LocalWorkload, RouteGroup, Sandbox};
use capt_kube::k8s::{K8sError, KubeClient, connect_by_token};
use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt as _, core::DeserializeGuard};
use sandbox::service::is_taken_over;

use super::{context::Context, fork_target::ClusterNamespace, remote_clusters};
use crate::{
    common::{gate, invalid_object, owning_cluster::OwningCluster},
    sandbox_common::remote_target::{SandboxScope, StartRemoteControllers},
};

/// Rescan interval; the deletion of the last Sandbox of a cluster triggers a scan earlier.
const RESCAN: Duration = Duration::from_mins(1);

/// Starts and stops controllers of workload clusters. Runs as long as it is polled.
pub(super) async fn run(ctx: Arc<Context>) {
    let SandboxScope::ManagementCluster(open) = ctx.scope.clone() else {
        return std::future::pending().await;
    };
    // Each control plane is probed once: after that, only a Sandbox starts controllers in its cluster.
    let mut seen = BTreeSet::new();
    loop {
        if let Err(error) = reconcile_all(&mut seen, &open, &ctx).await {
            tracing::debug!(%error, "failed to reconcile workload clusters");
        }
        let _left_or_time = tokio::time::timeout(RESCAN, ctx.cluster_vacated.notified()).await;
    }
}

/// Reconciles all workload clusters without a Sandbox in this cluster.
async fn reconcile_all(
    seen: &mut BTreeSet<String>,
    open: &StartRemoteControllers,
    ctx: &Context,
) -> Result<(), K8sError> {
    let (kube, settings) = (&ctx.common.kube, &ctx.common.settings);
    let all: Vec<DeserializeGuard<CaptControlPlane>> =
        kube.list_if_served(settings.namespace.as_deref()).await?;
    let mut there = BTreeSet::new();
    for control_plane in invalid_object::filter_valid(all) {
        let Some(OwningCluster { namespace, name, .. }) =
            OwningCluster::from_metadata(&control_plane.metadata)
        else {
            continue;
        };
        let spot = ClusterNamespace { cluster: Some(name), namespace };
        let is_ours = gate::matches_watch_filter(&control_plane.metadata, settings.watch_filter.as_deref());
        if control_plane.metadata.deletion_timestamp.is_some() || !is_ours {
            continue;
        }
        if !has_sandbox(&spot, ctx)
            && let Err(error) = reconcile_cluster(&spot, &control_plane, seen, (open, ctx)).await
        {
            // One unreachable cluster must not block the others.
            tracing::debug!(cluster = spot.cluster, %error, "failed to reconcile workload cluster");
        }
        there.insert(spot);
    }
    for gone in ctx.clusters.locations().into_iter().filter(|it| !there.contains(it) && !has_sandbox(it, ctx))
    {
        ctx.clusters.disconnect(&gone);
    }
    Ok(())
}

/// Whether a Sandbox of this cluster refers to it. Its own reconcile keeps the controllers running then.
fn has_sandbox(spot: &ClusterNamespace, ctx: &Context) -> bool {
    !ctx.index.sandboxes_where(|it| it == spot).is_empty()
}

/// Starts the controllers of a cluster that needs them, and stops those of one that does not.
async fn reconcile_cluster(
    spot: &ClusterNamespace,
    control_plane: &CaptControlPlane,
    seen: &mut BTreeSet<String>,
    (open, ctx): (&StartRemoteControllers, &Context),
) -> Result<(), K8sError> {
    if let Some(kube) = ctx.clusters.get(spot, control_plane) {
        if !needs_controllers(&kube, &spot.namespace).await? && !has_sandbox(spot, ctx) {
            ctx.clusters.disconnect(spot);
        }
        return Ok(());
    }
    let uid = control_plane.uid().unwrap_or_default();
    if seen.contains(&uid) || !remote_clusters::is_initialized(control_plane) {
        return Ok(());
    }
    let Some(text) =
        remote_clusters::read_kubeconfig(spot, &control_plane.metadata, &ctx.common.kube).await?
    else {
        return Ok(());
    };
    let kube = ctx.common.kube.with_client(connect_by_token(&text).await?);
    if needs_controllers(&kube, &spot.namespace).await? {
        remote_clusters::connect(spot, &text, control_plane, (open, ctx)).await?;
    }
    seen.insert(uid);
    Ok(())
}

/// Whether a cluster has objects that need the controllers.
async fn needs_controllers(kube: &KubeClient, namespace: &str) -> Result<bool, K8sError> {
    let services: Vec<Service> = kube.list(Some(namespace), "").await?;
    Ok(services.iter().any(is_taken_over)
        || exists::<Sandbox>(kube, namespace).await?
        || exists::<RouteGroup>(kube, namespace).await?
        || exists::<LocalWorkload>(kube, namespace).await?)
}

/// Whether an object of a kind exists; false if the kind is not served.
async fn exists<K>(kube: &KubeClient, namespace: &str) -> Result<bool, K8sError>
where
    K: Resource<DynamicType = ()>,
{
    match kube.list_metadata::<K>(Some(namespace), "").await {
        Err(K8sError::NoKind { .. }) => Ok(false),
        found => Ok(!found?.is_empty()),
    }
}
