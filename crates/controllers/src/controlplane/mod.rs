//! The `CAPTControlPlane` controller: one workspace for the EKS cluster, one per additional Fargate profile, and the kubeconfig
//! Secrets. Implements the control plane contract v1beta2 of Cluster API.
//!
//! It writes its own object and the objects it owns, and never a Cluster. A reconcile never waits for Terraform or AWS: EKS is
//! queried in the background ([`look`]).

mod act;
mod build;
mod context;
mod decide;
mod deletion;
mod dereference;
pub mod eks_poll;
mod endpoint;
mod events;
mod fargate;
#[cfg(test)]
mod fixtures;
mod kubeconfig;
mod load_balancers;
mod ownership;
mod phase;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod version;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_kinds::api::{CaptControlPlane, CaptControlPlaneStatus, conditions::reasons, names};
use capt_kube::k8s::StatusWrite;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt as _, api::DynamicObject, runtime::controller::Action};

use self::{
    act::{ApplyOutcome, DeletionProgress},
    decide::PollPlan,
    eks_poll::NextPoll,
    snapshot::ControlPlaneSnapshot,
    status::StatusContext,
};
pub use self::{context::Context, watch::run};
use super::common::{
    self, ProvisionedResource,
    cluster::{CapiClusterView, owner_cluster_ref as owner_reference},
    gate::{self, ReconcileGate},
    metrics::elapsed_since,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

/// Resync interval for changes that no watch reports.
const RESYNC_INTERVAL: Duration = Duration::from_mins(10);
/// Requeue delay while waiting for something that no watch reports.
const WAIT_REQUEUE: Duration = Duration::from_secs(30);
/// Requeue delay while a deletion waits for Sandboxes or load balancers.
const DRAIN_REQUEUE: Duration = Duration::from_secs(1);
/// Minimum requeue delay.
const MIN_REQUEUE: Duration = Duration::from_millis(100);

/// Reconciles one control plane.
pub async fn reconcile(object: Arc<CaptControlPlane>, ctx: Arc<Context>) -> Result<Action, ReconcileError> {
    let (meta, filter) = (&object.metadata, ctx.common.settings.watch_filter.as_deref());
    if !gate::matches_watch_filter(meta, filter) {
        return Ok(Action::await_change());
    }
    let owner = dereference::owner_cluster(&object, &ctx.common)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    let view = owner.as_ref().map(CapiClusterView::from_object);
    let (old, at) = (object.status.clone().unwrap_or_default(), status_context(&object, &ctx));
    match (gate::evaluate(meta, view.as_ref(), filter), owner) {
        (ReconcileGate::FilteredOut | ReconcileGate::Moving, _) => {}
        (ReconcileGate::Paused, _) => write_status(&object, &status::paused(&old, at), &ctx).await?,
        (ReconcileGate::Proceed, _) if meta.deletion_timestamp.is_some() => {
            return Box::pin(reconcile_deletion(&object, &ctx)).await;
        }
        (ReconcileGate::Proceed, Some(owner)) => {
            return Box::pin(reconcile_live(&object, &owner, &ctx)).await;
        }
        (ReconcileGate::Proceed | ReconcileGate::WaitingForOwner, _) => {
            write_status(
                &object,
                &status::waiting_for_owner(&old, at, &describe_missing_owner(&object)),
                &ctx,
            )
            .await?;
        }
    }
    Ok(Action::await_change())
}

/// Reconciles a control plane that is not being deleted.
async fn reconcile_live(
    object: &CaptControlPlane,
    owner: &DynamicObject,
    ctx: &Context,
) -> Result<Action, ReconcileError> {
    // finalizer (client required)
    let held = ctx.common.kube.add_finalizer(object, names::CONTROL_PLANE_FINALIZER).await;
    let object = held.map_err(ReconcileStep::Hold.wrap_error())?;
    // dereference (client required, read only)
    let seen = Box::pin(dereference::dereference(&object, owner, ctx)).await;
    let seen = seen.map_err(ReconcileStep::Dereference.wrap_error())?;
    // validate, decide (no client required)
    let look = ctx.eks_poller.observation(&object.uid().unwrap_or_default());
    let at = status_context(&object, ctx);
    let valid = validate::validate(&object, &seen, &ctx.limits);
    let snapshot = ControlPlaneSnapshot::new(&object, &seen, &look, valid, at.now);
    let decision = decide::decide(&snapshot);
    let curiosity = decide::plan_poll(&snapshot, ctx.poll_interval);
    // act (client required)
    let acted =
        act::apply_decision(object.clone(), decision, ctx).await.map_err(ReconcileStep::Act.wrap_error())?;
    let ApplyOutcome { object: now, rejected: refused, first_error: trouble } = acted;
    // status (client required only for the write)
    let at = StatusContext { generation: now.metadata.generation, ..at };
    write_status(&now, &status::observed(&snapshot.with_rejections(refused), at), ctx).await?;
    start_poll(&now, curiosity.as_ref(), ctx);
    match trouble {
        Some(error) => Err(ReconcileStep::Act.wrap_error()(error)),
        None => Ok(requeue_action(&snapshot, curiosity.as_ref())),
    }
}

/// Starts a background EKS query if one is due.
fn start_poll(object: &CaptControlPlane, curiosity: Option<&PollPlan>, ctx: &Context) {
    if let Some(PollPlan { query: question, next: NextPoll::Now }) = curiosity {
        let uid = object.uid().unwrap_or_default();
        let cloud = Arc::clone(&ctx.backend);
        ctx.eks_poller.start_query(
            &uid,
            question.clone(),
            cloud,
            (ctx.common.clock, ctx.reconcile_trigger(object)),
        );
    }
}

/// The requeue delay without other triggers.
fn requeue_action(snapshot: &ControlPlaneSnapshot<'_>, curiosity: Option<&PollPlan>) -> Action {
    let deadline = status::deadline(snapshot);
    let wake = decide::next_requeue(snapshot, curiosity, deadline.as_slice());
    let left = |then: Timestamp| Duration::try_from(then.duration_since(snapshot.now)).unwrap_or_default();
    // Identities are not watched by this controller.
    let net = if snapshot.references.principal.is_err() { WAIT_REQUEUE } else { RESYNC_INTERVAL };
    Action::requeue(wake.map_or(net, |then| left(then).clamp(MIN_REQUEUE, net)))
}

/// Reconciles the deletion of a control plane.
async fn reconcile_deletion(object: &CaptControlPlane, ctx: &Context) -> Result<Action, ReconcileError> {
    if !object.finalizers().iter().any(|it| it == names::CONTROL_PLANE_FINALIZER) {
        return Ok(Action::await_change());
    }
    loop {
        // dereference (client required, read only)
        let remains = Box::pin(dereference::find_remaining(object, &ctx.common)).await;
        let mut remains = remains.map_err(ReconcileStep::Dereference.wrap_error())?;
        remains.load_balancers = Box::pin(remaining_load_balancers(object, &remains, ctx)).await;
        // decide (no client required), act (client required)
        let age = elapsed_since(object.metadata.deletion_timestamp.as_ref(), (ctx.common.clock)());
        let step = deletion::next_step(&remains, age.unwrap_or_default());
        let removed = Box::pin(act::run_deletion_step(object, step, &remains, ctx)).await;
        match removed.map_err(ReconcileStep::Remove.wrap_error())? {
            DeletionProgress::Released => return Ok(Action::await_change()),
            DeletionProgress::StepDone => {}
            DeletionProgress::Waiting { reason, why } => {
                let old = object.status.clone().unwrap_or_default();
                let left = deletion::remaining_profile_statuses(object, &remains);
                let new = status::deleting(&old, status_context(object, ctx), (reason, &why), left);
                write_status(object, &new, ctx).await?;
                // No watch reports the deletion of Sandboxes or of Services in the workload cluster.
                let drains =
                    [reasons::WAITING_FOR_SANDBOXES_DELETION, reasons::WAITING_FOR_LOAD_BALANCERS_DELETION]
                        .contains(&reason);
                return Ok(Action::requeue(if drains { DRAIN_REQUEUE } else { WAIT_REQUEUE }));
            }
        }
    }
}

/// The router load balancers that are left in the cluster. An unreachable cluster counts as an error only if Sandboxes are
/// enabled in it.
async fn remaining_load_balancers(
    object: &CaptControlPlane,
    remains: &dereference::RemainingObjects,
    ctx: &Context,
) -> Result<Vec<Service>, String> {
    let is_enabled = object.spec.sandboxes.as_ref().is_some_and(|it| it.enabled);
    match load_balancers::list_remaining(object, remains, &ctx.common).await {
        Err(error) if is_enabled => Err(error.to_string()),
        found => Ok(found.unwrap_or_default()),
    }
}

fn describe_missing_owner(object: &CaptControlPlane) -> String {
    match owner_reference(&object.metadata) {
        None => "no Cluster owner reference is set yet".to_owned(),
        Some(owner) => format!("Cluster {} with uid {} does not exist", owner.name, owner.uid),
    }
}

fn status_context(object: &CaptControlPlane, ctx: &Context) -> StatusContext {
    StatusContext { generation: object.metadata.generation, now: (ctx.common.clock)() }
}

/// Writes a changed status and publishes the events of its transitions.
async fn write_status(
    object: &CaptControlPlane,
    new: &CaptControlPlaneStatus,
    ctx: &Context,
) -> Result<(), ReconcileError> {
    let old = object.status.as_ref();
    let written = ctx.common.kube.write_status(object, old, new).await;
    if written.map_err(ReconcileStep::Status.wrap_error())? == StatusWrite::Changed {
        let before = old.cloned().unwrap_or_default();
        for one in events::transition_events(&before, new) {
            ctx.common.events.publish(object, one).await;
        }
        tracing::debug!(namespace = object.namespace(), name = object.name_any(), phase = ?new.phase, "status updated");
    }
    record_metrics(object, new, &ctx.common);
    Ok(())
}

/// Records the metrics of a control plane.
fn record_metrics(object: &CaptControlPlane, now: &CaptControlPlaneStatus, ctx: &common::Context) {
    let states: Vec<&str> =
        now.fargate_profile_statuses.iter().filter_map(|it| it.status.as_deref()).collect();
    ctx.metrics.fargate_profile_states(&runner::namespaced_name(&object.metadata), &states);
    let was_there = object.status.as_ref().is_some_and(|before| before.initialized == Some(true));
    let age = elapsed_since(object.metadata.creation_timestamp.as_ref(), (ctx.clock)());
    if let Some(took) = age.filter(|_| now.initialized == Some(true) && !was_there) {
        ctx.metrics.resource_created(ProvisionedResource::Cluster, took);
    }
}
