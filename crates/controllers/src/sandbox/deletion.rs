//! Deletion of a Sandbox. Order: routes, so that no request reaches a terminating fork; then local workloads, Services, forks.
//!
//! Every step is idempotent and bounded in time: a missing object counts as deleted, and no step blocks the finalizer forever.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use capt_kinds::sandbox::{ClusterRef, LocalWorkload, Sandbox, SandboxSpec, names};
use capt_kube::k8s::{K8sError, events::EventSpec};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    ResourceExt as _,
    core::{ApiResource, DeserializeGuard, PartialObjectMeta},
    runtime::controller::Action,
};

use super::{
    context::Context,
    dereference::{self, api_resource},
    fork_target::{self, ForkTarget},
    remote::{self, RemoteCleanup},
    route_status,
    status::{self, StatusContext},
    write_status,
};
use crate::common::{
    metrics::elapsed_since,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

/// How long to wait for the routers to confirm that they withdrew the routes.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval for that confirmation.
const WITHDRAWAL_POLL: Duration = Duration::from_millis(250);
/// `action` of the events of this module.
const ACTION: &str = "Remove";

/// Replaces an undecodable Sandbox that is being deleted by a minimal one. Name, uid and `clusterRef` suffice for the cleanup.
pub(super) async fn minimal_if_undecodable(
    object: Arc<DeserializeGuard<Sandbox>>,
    ctx: &Context,
) -> Result<Arc<DeserializeGuard<Sandbox>>, ReconcileError> {
    let Some(invalid) = object.0.as_ref().err().filter(|it| it.metadata.deletion_timestamp.is_some()) else {
        return Ok(object);
    };
    let meta = &invalid.metadata;
    let (home, name) = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let raw = ctx.common.kube.get_dynamic(&api_resource::<Sandbox>(), home, name).await;
    let raw = raw.map_err(ReconcileStep::Dereference.wrap_error())?;
    let cluster = raw.and_then(|it| Some(it.data.pointer("/spec/clusterRef/name")?.as_str()?.to_owned()));
    let spec = SandboxSpec { cluster_ref: cluster.map(|name| ClusterRef { name }), ..SandboxSpec::default() };
    let metadata = meta.clone();
    Ok(Arc::new(DeserializeGuard(Ok(Sandbox { metadata, spec, status: None }))))
}

/// Deletes the objects of a Sandbox and removes its finalizer.
pub(super) async fn reconcile_deletion(object: &Sandbox, ctx: &Context) -> Result<Action, ReconcileError> {
    if !object.finalizers().iter().any(|it| it == names::FINALIZER) {
        return Ok(Action::await_change());
    }
    let now = (ctx.common.clock)();
    let age = elapsed_since(object.metadata.deletion_timestamp.as_ref(), now).unwrap_or_default();
    let at = StatusContext { generation: object.metadata.generation, now, expires_at: None };
    ctx.index.set(
        &fork_target::cluster_namespace(object),
        &object.name_any(),
        dereference::baseline_names(object),
    );
    if object.spec.cluster_ref.is_some() {
        let left = match remote::delete_remote(object, at, age, ctx).await? {
            RemoteCleanup::InProgress(action) => return Ok(action),
            RemoteCleanup::Abandoned(why) => Some(why),
            RemoteCleanup::Done => None,
        };
        finalize(object, left, ctx).await?;
        return Ok(Action::await_change());
    }
    if age < WITHDRAWAL_TIMEOUT
        && !route_status::are_withdrawn(object, ctx.snapshotter.latest_snapshot().as_deref())
    {
        let why = "waiting for the routers to withdraw the routes";
        if let Err(error) = write_status(object, &status::terminating_status(object, why, at), ctx).await {
            // Deletion does not depend on the status write.
            tracing::debug!(name = object.name_any(), %error, "failed to write the status during deletion");
        }
        return Ok(Action::requeue(WITHDRAWAL_POLL));
    }
    Box::pin(delete_owned(object, &fork_target::fork_target(object, ctx), ctx))
        .await
        .map_err(ReconcileStep::Remove.wrap_error())?;
    finalize(object, None, ctx).await?;
    Ok(Action::await_change())
}

/// Removes the finalizer and clears the caches. Claimants of the routing key are triggered by the watch.
async fn finalize(object: &Sandbox, left: Option<String>, ctx: &Context) -> Result<(), ReconcileError> {
    let news = match left {
        Some(why) => EventSpec::warning(
            ACTION,
            "CleanedUp",
            format!("forks may remain in the workload cluster: {why}"),
        ),
        None => EventSpec::normal(ACTION, "CleanedUp", "deleted the forks and their Services"),
    };
    ctx.common.events.publish(object, news).await;
    // Metadata only: the response is the whole object, which may not decode.
    let metadata = object.metadata.clone();
    let held = PartialObjectMeta::<Sandbox> { types: None, metadata, _phantom: PhantomData };
    ctx.common
        .kube
        .remove_finalizers(&held, &[names::FINALIZER])
        .await
        .map_err(ReconcileStep::Hold.wrap_error())?;
    let spot = fork_target::cluster_namespace(object);
    if ctx.index.remove(&spot, &object.name_any()) && spot.cluster.is_some() {
        ctx.cluster_vacated.notify_one();
    }
    ctx.fork_cache.forget(&object.uid().unwrap_or_default());
    ctx.common.metrics.sandbox_phase(&runner::namespaced_name(&object.metadata), None);
    Ok(())
}

/// Deletes local workloads, Services and forks.
async fn delete_owned(object: &Sandbox, place: &ForkTarget, ctx: &Context) -> Result<(), K8sError> {
    // Tunnel sessions end before the forks they could fall back to.
    delete_local_workloads(object, ctx).await?;
    let made = dereference::list_owned(object, place).await?;
    for service in &made.services {
        place.kube.delete_dynamic(&api_resource::<Service>(), service).await?;
    }
    for fork in &made.forks {
        place.kube.delete_dynamic(&api_resource::<Deployment>(), fork).await?;
    }
    Ok(())
}

/// Deletes the local workloads that a Sandbox owns.
async fn delete_local_workloads(object: &Sandbox, ctx: &Context) -> Result<(), K8sError> {
    let kind: ApiResource = api_resource::<LocalWorkload>();
    for local in dereference::list_local_workloads(object, ctx)
        .await?
        .iter()
        .filter(|it| dereference::is_owned_by(it, object))
    {
        ctx.common.kube.delete_dynamic(&kind, local).await?;
    }
    Ok(())
}
