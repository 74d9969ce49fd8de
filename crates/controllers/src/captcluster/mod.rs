//! Controller of `CAPTCluster`, the infrastructure cluster of the Cluster API contract v1beta2: the network of one
//! cluster, created by one workspace.
//!
//! Writes only the `CAPTCluster` and its `WorkspaceTemplateApply`; it must never write a Cluster.

mod act;
mod build;
mod decide;
mod dereference;
mod events;
#[cfg(test)]
mod fixtures;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_kinds::api::{CaptCluster, CaptClusterStatus};
use capt_kube::k8s::StatusWrite;
use jiff::Timestamp;
use kube::{ResourceExt as _, runtime::controller::Action};

pub use self::watch::run;
use self::{
    act::{NetworkApplyOutcome, NetworkDeletionOutcome},
    dereference::{NetworkReferences, OwnerCluster},
    status::{NetworkObservation, StatusContext},
};
use super::common::{
    Context,
    cluster::owner_cluster_ref as owner_reference,
    gate::{self, ReconcileGate},
    reconcile_error::{ReconcileError, ReconcileStep},
    workspace_summary::string_output,
};

/// Resync interval for changes that trigger no watch event.
const RESYNC: Duration = Duration::from_mins(10);
/// Resync interval during deletion.
const DELETION_RESYNC: Duration = Duration::from_secs(30);

/// Reconciles one `CAPTCluster`.
pub async fn reconcile(object: Arc<CaptCluster>, ctx: Arc<Context>) -> Result<Action, ReconcileError> {
    let (meta, filter) = (&object.metadata, ctx.settings.watch_filter.as_deref());
    if gate::is_externally_managed(meta) || !gate::matches_watch_filter(meta, filter) {
        return Ok(Action::await_change());
    }
    let owner =
        dereference::get_owner(&object, &ctx).await.map_err(ReconcileStep::Dereference.wrap_error())?;
    let at = status_context(&object, &ctx);
    let old = object.status.clone().unwrap_or_default();
    match (gate::evaluate(meta, owner.as_ref().map(|it| &it.cluster), filter), owner) {
        (ReconcileGate::FilteredOut | ReconcileGate::Moving, _) => {}
        (ReconcileGate::Paused, _) => write_status(&object, &status::paused(&old, at), &ctx).await?,
        (ReconcileGate::Proceed, _) if meta.deletion_timestamp.is_some() => {
            return reconcile_deletion(&object, &ctx).await;
        }
        (ReconcileGate::Proceed, Some(owner)) => return Box::pin(reconcile_live(&object, owner, &ctx)).await,
        (ReconcileGate::Proceed | ReconcileGate::WaitingForOwner, _) => {
            write_status(
                &object,
                &status::waiting_for_owner(&old, at, &missing_owner_message(&object)),
                &ctx,
            )
            .await?;
        }
    }
    Ok(Action::await_change())
}

/// Reconciles an object that is not being deleted.
async fn reconcile_live(
    object: &CaptCluster,
    owner: OwnerCluster,
    ctx: &Context,
) -> Result<Action, ReconcileError> {
    // finalizer (client required)
    let object = act::ensure_finalizer(object, ctx).await.map_err(ReconcileStep::Hold.wrap_error())?;
    // dereference (client required, read only)
    let seen = dereference::dereference(&object, owner, ctx)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    // validate (no client required)
    let valid = match validate::validate(&object, &seen) {
        Ok(valid) => valid,
        Err(refusal) => {
            let old = object.status.clone().unwrap_or_default();
            write_status(&object, &status::invalid(&old, status_context(&object, ctx), &refusal), ctx)
                .await?;
            return Ok(Action::await_change());
        }
    };
    // decide (no client required)
    let decision = decide::decide(&object, &valid, &seen);
    // act (client required)
    let live = seen.apply.clone();
    let acted =
        act::apply_decision(object, decision, live, ctx).await.map_err(ReconcileStep::Act.wrap_error())?;
    // status (client required only to write it)
    let (new, next) = status_and_requeue(&acted, &seen, ctx);
    write_status(&acted.object, &new, ctx).await?;
    Ok(Action::requeue(next))
}

/// Reconciles an object that is being deleted.
async fn reconcile_deletion(object: &CaptCluster, ctx: &Context) -> Result<Action, ReconcileError> {
    let remains = dereference::dereference_for_deletion(object, ctx)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    let removal = decide::next_deletion_step(object, &remains);
    match act::execute_deletion_step(object, removal, ctx)
        .await
        .map_err(ReconcileStep::Remove.wrap_error())?
    {
        NetworkDeletionOutcome::FinalizersRemoved => Ok(Action::await_change()),
        NetworkDeletionOutcome::Waiting { reason, why } => {
            let old = object.status.clone().unwrap_or_default();
            write_status(object, &status::deleting(&old, status_context(object, ctx), reason, &why), ctx)
                .await?;
            Ok(Action::requeue(DELETION_RESYNC))
        }
    }
}

/// The status after the decision was applied, and the requeue interval.
fn status_and_requeue(
    acted: &NetworkApplyOutcome,
    seen: &NetworkReferences,
    ctx: &Context,
) -> (CaptClusterStatus, Duration) {
    let at = status_context(&acted.object, ctx);
    let old = acted.object.status.clone().unwrap_or_default();
    let spec = &acted.object.spec;
    let output = acted.apply.as_ref().and_then(|apply| string_output(apply, "vpc_id"));
    let limit = vpc_timeout(seen, ctx);
    let (overdue, left) = timeout_state(acted, limit, at.now);
    let found = NetworkObservation {
        apply: acted.apply.as_ref(),
        uses_existing_vpc: spec.existing_vpc_id.is_some(),
        vpc_id: output
            .map(ToOwned::to_owned)
            .or_else(|| seen.hidden_vpc_id.clone())
            .or_else(|| spec.existing_vpc_id.clone()),
        rejection: acted.rejection.clone(),
        waiting_for: acted.waiting_for.clone(),
        exceeded_timeout: overdue.then_some(limit),
        endpoint: seen.cluster.endpoint.as_ref().map(|(host, _)| host.as_str()),
    };
    let new = status::observed(&old, at, &found);
    let next = if status::is_provisioned(&new) { RESYNC } else { left.unwrap_or(RESYNC).min(RESYNC) };
    (new, next)
}

/// Timeout for the VPC: from the control plane's spec, else the operator's default.
fn vpc_timeout(seen: &NetworkReferences, ctx: &Context) -> Duration {
    let config = seen.control_plane.as_ref().and_then(|it| it.spec.control_plane_config.as_ref());
    let minutes =
        config.and_then(|it| it.timeouts.as_ref()).and_then(|it| u64::try_from(it.vpc_ready_timeout).ok());
    minutes.map_or(ctx.settings.vpc_timeout, Duration::from_mins)
}

/// Whether the workspace exceeded the timeout, and the time that is left otherwise.
fn timeout_state(acted: &NetworkApplyOutcome, limit: Duration, now: Timestamp) -> (bool, Option<Duration>) {
    let created = acted.apply.as_ref().and_then(|apply| apply.metadata.creation_timestamp.as_ref());
    let Some(created) = created else { return (false, None) };
    let age = Duration::try_from(now.duration_since(created.0)).unwrap_or_default();
    (age >= limit, limit.checked_sub(age).filter(|left| !left.is_zero()))
}

fn missing_owner_message(object: &CaptCluster) -> String {
    match owner_reference(&object.metadata) {
        None => "no owner reference to a Cluster is set yet".to_owned(),
        Some(owner) => format!("Cluster {} with uid {} does not exist", owner.name, owner.uid),
    }
}

fn status_context(object: &CaptCluster, ctx: &Context) -> StatusContext {
    StatusContext { generation: object.metadata.generation, now: (ctx.clock)() }
}

/// Writes the status if it changed, and publishes events for its transitions.
async fn write_status(
    object: &CaptCluster,
    new: &CaptClusterStatus,
    ctx: &Context,
) -> Result<(), ReconcileError> {
    let old = object.status.as_ref();
    let written =
        ctx.kube.write_status(object, old, new).await.map_err(ReconcileStep::Status.wrap_error())?;
    if written == StatusWrite::Changed {
        let before = old.cloned().unwrap_or_default();
        for one in events::status_events(&before, new) {
            ctx.events.publish(object, one).await;
        }
        tracing::debug!(namespace = object.namespace(), name = object.name_any(), phase = ?new.phase, "status written");
    }
    Ok(())
}
