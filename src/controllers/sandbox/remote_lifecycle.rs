//! Clusters that are worked in although no Sandbox of this one lives there, and those that are not worked in any more.
//!
//! A Service there whose traffic goes to routers needs somebody who gives it back when these are gone, and what people made
//! there themselves needs its controllers. Both outlive the Sandbox that brought the controllers there, and this process.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt as _, core::DeserializeGuard};
use sandbox::{
    api::{LocalWorkload, RouteGroup, Sandbox},
    service::is_taken_over,
};

use super::{context::Context, far, place::Spot};
use crate::{
    api::CaptControlPlane,
    controllers::common::{
        family::Family,
        gate,
        outpost::{Ground, Open},
        unreadable,
    },
    k8s::{K8sError, Kube, connect_by_token},
};

/// How often we look, unless a Sandbox has left.
const EVERY: Duration = Duration::from_mins(1);

/// Begins and ends the work in other clusters, for as long as it is polled.
pub(super) async fn follow(ctx: Arc<Context>) {
    let Ground::Home(open) = ctx.ground.clone() else { return std::future::pending().await };
    // Where nothing was begun before us, only a Sandbox begins something.
    let mut seen = BTreeSet::new();
    loop {
        if let Err(error) = look(&mut seen, &open, &ctx).await {
            tracing::debug!(%error, "the clusters of sandboxes cannot be looked at");
        }
        let _left_or_time = tokio::time::timeout(EVERY, ctx.left.notified()).await;
    }
}

/// Looks at all clusters without a Sandbox of this one.
async fn look(seen: &mut BTreeSet<String>, open: &Open, ctx: &Context) -> Result<(), K8sError> {
    let (kube, settings) = (&ctx.common.kube, &ctx.common.settings);
    let all: Vec<DeserializeGuard<CaptControlPlane>> =
        kube.list_if_served(settings.namespace.as_deref()).await?;
    let mut there = BTreeSet::new();
    for control_plane in unreadable::readable(all) {
        let Some(Family { namespace, name, .. }) = Family::of(&control_plane.metadata) else { continue };
        let spot = Spot { cluster: Some(name), namespace };
        let is_ours = gate::passes(&control_plane.metadata, settings.watch_filter.as_deref());
        if control_plane.metadata.deletion_timestamp.is_some() || !is_ours {
            continue;
        }
        if !is_used(&spot, ctx)
            && let Err(error) = attend(&spot, &control_plane, seen, (open, ctx)).await
        {
            // It may be out of reach today; there are others.
            tracing::debug!(cluster = spot.cluster, %error, "a cluster without sandboxes does not answer");
        }
        there.insert(spot);
    }
    for gone in ctx.clusters.all().into_iter().filter(|it| !there.contains(it) && !is_used(it, ctx)) {
        ctx.clusters.forget(&gone);
    }
    Ok(())
}

/// Whether a Sandbox of this cluster lives there. It looks after its cluster itself.
fn is_used(spot: &Spot, ctx: &Context) -> bool {
    !ctx.index.at(|it| it == spot).is_empty()
}

/// Begins the work in a cluster that needs it, and ends it in one that does not.
async fn attend(
    spot: &Spot,
    control_plane: &CaptControlPlane,
    seen: &mut BTreeSet<String>,
    (open, ctx): (&Open, &Context),
) -> Result<(), K8sError> {
    if let Some(kube) = ctx.clusters.known(spot, control_plane) {
        if !is_needed(&kube, &spot.namespace).await? && !is_used(spot, ctx) {
            ctx.clusters.forget(spot);
        }
        return Ok(());
    }
    let uid = control_plane.uid().unwrap_or_default();
    if seen.contains(&uid) || !far::is_up(control_plane) {
        return Ok(());
    }
    let Some(text) = far::kubeconfig(spot, &control_plane.metadata, &ctx.common.kube).await? else {
        return Ok(());
    };
    let kube = ctx.common.kube.towards(connect_by_token(&text).await?);
    if is_needed(&kube, &spot.namespace).await? {
        far::begin(spot, &text, control_plane, (open, ctx)).await?;
    }
    seen.insert(uid);
    Ok(())
}

/// Whether something in a cluster needs our controllers.
async fn is_needed(kube: &Kube, namespace: &str) -> Result<bool, K8sError> {
    let services: Vec<Service> = kube.list(Some(namespace), "").await?;
    Ok(services.iter().any(is_taken_over)
        || is_any::<Sandbox>(kube, namespace).await?
        || is_any::<RouteGroup>(kube, namespace).await?
        || is_any::<LocalWorkload>(kube, namespace).await?)
}

/// Whether there is an object of a kind. Where nobody knows the kind there is none.
async fn is_any<K>(kube: &Kube, namespace: &str) -> Result<bool, K8sError>
where
    K: Resource<DynamicType = ()>,
{
    match kube.list_metadata::<K>(Some(namespace), "").await {
        Err(K8sError::NoKind { .. }) => Ok(false),
        found => Ok(!found?.is_empty()),
    }
}
