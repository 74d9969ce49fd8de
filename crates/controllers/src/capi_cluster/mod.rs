//! Controller of `Cluster` for installations without Cluster API. Follows the behaviour of Cluster API's own controller.
//!
//! Must not run beside Cluster API; the operator decides that at startup. Sets owner reference and label on the referenced
//! objects, reflects their latches and conditions, copies endpoint and failure domains, and deletes them in order: control
//! plane first, then infrastructure.

mod act;
pub mod cluster_types;
mod decide;
mod dereference;
mod events;
#[cfg(test)]
mod fixtures;
mod referenced_object;
mod status;
#[cfg(test)]
mod tests;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_kinds::api::names;
use capt_kube::k8s::StatusWrite;
use kube::{ResourceExt as _, runtime::controller::Action};

pub use self::watch::run;
use self::{
    cluster_types::{Cluster, ClusterStatus},
    dereference::ClusterReferences,
    referenced_object::ResolvedReference,
    status::StatusContext,
};
use super::common::{
    Context, gate,
    reconcile_error::{ReconcileError, ReconcileStep},
};

/// Requeue delay while a referenced object is missing or being deleted.
const MISSING_RETRY: Duration = Duration::from_secs(30);
/// Resync interval for changes that trigger no watch event.
const RESYNC: Duration = Duration::from_mins(10);

/// Reconciles one Cluster.
pub async fn reconcile(cluster: Arc<Cluster>, ctx: Arc<Context>) -> Result<Action, ReconcileError> {
    let (meta, old) = (&cluster.metadata, cluster.status.clone().unwrap_or_default());
    let going = meta.deletion_timestamp.is_some();
    let moving = going && gate::has_annotation(meta, names::DELETE_FOR_MOVE_ANNOTATION);
    if moving || !gate::matches_watch_filter(meta, ctx.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    if let Some(why) = pause_reason(&cluster) {
        write_status(&cluster, &status::paused(&old, status_context(&cluster, &ctx), why), &ctx).await?;
        return Ok(Action::await_change());
    }
    if !going && !act::has_finalizer(&cluster) {
        ctx.kube.add_finalizer(&*cluster, act::FINALIZER).await.map_err(ReconcileStep::Hold.wrap_error())?;
        return Ok(Action::await_change());
    }
    // dereference and set ownership of both references, also during deletion (client required)
    let seen =
        dereference::dereference(&cluster, &ctx).await.map_err(ReconcileStep::Dereference.wrap_error())?;
    let seen = act::set_ownership(&cluster, seen, &ctx).await.map_err(ReconcileStep::Claim.wrap_error())?;
    if going {
        reconcile_deletion(&cluster, &seen, &ctx).await
    } else {
        reconcile_live(&cluster, &seen, &ctx).await
    }
}

/// Reconciles a Cluster that is not being deleted.
async fn reconcile_live(
    cluster: &Cluster,
    seen: &ClusterReferences,
    ctx: &Context,
) -> Result<Action, ReconcileError> {
    let endpoint = decide::endpoint_to_set(cluster, seen);
    let cluster = act::set_endpoint(cluster.clone(), endpoint, ctx)
        .await
        .map_err(ReconcileStep::Endpoint.wrap_error())?;
    let new = status::observed(&cluster, seen, None, status_context(&cluster, ctx));
    write_status(&cluster, &new, ctx).await?;
    let missing = |part: &ResolvedReference| {
        matches!(part, ResolvedReference::Missing { .. } | ResolvedReference::UnsupportedKind { .. })
    };
    let soon = missing(&seen.infrastructure) || missing(&seen.control_plane);
    Ok(Action::requeue(if soon { MISSING_RETRY } else { RESYNC }))
}

/// Reconciles a Cluster that is being deleted.
async fn reconcile_deletion(
    cluster: &Cluster,
    seen: &ClusterReferences,
    ctx: &Context,
) -> Result<Action, ReconcileError> {
    let waits = act::execute_deletion_step(decide::next_deletion_step(seen), ctx)
        .await
        .map_err(ReconcileStep::Remove.wrap_error())?;
    let Some((reason, why)) = waits else {
        ctx.kube
            .remove_finalizers(cluster, &[act::FINALIZER])
            .await
            .map_err(ReconcileStep::Hold.wrap_error())?;
        return Ok(Action::await_change());
    };
    let new = status::observed(cluster, seen, Some((reason, &why)), status_context(cluster, ctx));
    write_status(cluster, &new, ctx).await?;
    Ok(Action::requeue(MISSING_RETRY))
}

/// Why the Cluster is paused, if it is.
fn pause_reason(cluster: &Cluster) -> Option<&'static str> {
    if cluster.spec.paused == Some(true) {
        return Some("spec.paused is true");
    }
    gate::has_annotation(&cluster.metadata, names::PAUSED_ANNOTATION)
        .then_some("the annotation cluster.x-k8s.io/paused is set")
}

fn status_context(cluster: &Cluster, ctx: &Context) -> StatusContext {
    StatusContext { generation: cluster.metadata.generation, now: (ctx.clock)() }
}

/// Writes the status if it changed, and publishes events for its transitions.
async fn write_status(cluster: &Cluster, new: &ClusterStatus, ctx: &Context) -> Result<(), ReconcileError> {
    let old = cluster.status.as_ref();
    let written =
        ctx.kube.write_status(cluster, old, new).await.map_err(ReconcileStep::Status.wrap_error())?;
    if written == StatusWrite::Changed {
        let before = old.cloned().unwrap_or_default();
        for event in events::transition_events(&before, new) {
            ctx.events.publish(cluster, event).await;
        }
        tracing::debug!(
            namespace = cluster.namespace(),
            name = cluster.name_any(),
            phase = new.phase,
            "status written"
        );
    }
    Ok(())
}
