//! Controller of `Sandbox`: forks of Deployments, and the Services that select the forks.
//!
//! Writes Sandboxes and the objects they own, and never a baseline: user patches are applied to it as a server-side dry run
//! only. The semantics live in the crate `sandbox`; this module reads, applies and reports.

mod act;
mod apply_error;
mod baseline_index;
mod build;
mod context;
mod decide;
mod deletion;
mod dereference;
mod dry_run;
mod events;
mod fork_cache;
mod fork_pass;
mod fork_target;
mod key_conflict;
mod local_workloads;
mod mirror;
mod remote;
mod remote_clusters;
mod remote_lifecycle;
mod route_status;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use std::time::Duration;

use capt_kinds::sandbox::{
    ForkStatus, Sandbox, SandboxStatus, TtlOffset,
    conditions::{reasons, types},
    names,
};
use capt_kube::k8s::{StatusWrite, events::EventSpec};
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, runtime::controller::Action};
use sandbox::{
    condition::ConditionUpdate,
    readiness::ForkReadiness,
    rejection::Rejection,
    ttl::{self, ExpiryStatus, TtlAnchors},
};

pub use self::watch::run;
use self::{
    context::Context,
    fork_pass::ForkPass,
    status::{SandboxObservation, StatusContext},
    validate::routing_key,
};
use super::common::{
    gate,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

/// Resync interval. Covers inputs that are not watched: disruption budgets, network policies.
const RESYNC: Duration = Duration::from_mins(10);
/// Retry interval after a rejection that only a third party can lift: a quota, a policy.
const FORBIDDEN_RETRY: SignedDuration = SignedDuration::from_secs(60);
/// Interval for listing pod events while a fork is not ready.
const POD_EVENTS_POLL: SignedDuration = SignedDuration::from_secs(15);
/// `action` of the events of this controller.
const ACTION: &str = "Reconcile";

/// Reconciles one Sandbox.
async fn reconcile(object: &Sandbox, ctx: &Context) -> Result<Action, ReconcileError> {
    if !gate::matches_watch_filter(&object.metadata, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    if object.metadata.deletion_timestamp.is_some() {
        return deletion::reconcile_deletion(object, ctx).await;
    }
    let (end, due) = expiry(object, (ctx.common.clock)());
    if due == Some(ExpiryStatus::Expired) {
        return expire(object, ctx).await;
    }
    // add the finalizer (client required)
    let held = ctx.common.kube.add_finalizer(object, names::FINALIZER).await;
    let object = &held.map_err(ReconcileStep::Hold.wrap_error())?;
    let now = (ctx.common.clock)();
    let at = StatusContext { generation: object.metadata.generation, now, expires_at: end };
    // Before anything is read, so that later changes trigger a reconcile.
    ctx.index.set(
        &fork_target::cluster_namespace(object),
        &object.name_any(),
        dereference::baseline_names(object),
    );
    let (new, wake) = if object.spec.cluster_ref.is_some() {
        remote::reconcile_remote(object, &routing_key(object), at, ctx).await?
    } else {
        let (observed, wake) = Box::pin(reconcile_forks(object, at, ctx)).await?;
        (status::build_status(object, observed, at), wake)
    };
    write_status(object, &new, ctx).await?;
    let is_expiring = matches!(due, Some(ExpiryStatus::Pending { is_expiring: true, .. }));
    let uid = object.uid().unwrap_or_default();
    if let Some(end) = end.filter(|it| is_expiring && ctx.fork_cache.record_expiry(&uid, *it)) {
        let note = format!("TTL expires soon; deletion scheduled for {end}");
        ctx.common.events.publish(object, EventSpec::warning("Expire", "Expiring", note)).await;
    }
    Ok(Action::requeue(requeue_after(now, due, wake)))
}

/// Time until the next reconcile if no watch triggers one earlier.
fn requeue_after(now: Timestamp, due: Option<ExpiryStatus>, wake: Option<Timestamp>) -> Duration {
    let due = match due {
        Some(ExpiryStatus::Pending { recheck_after: after, .. }) => after,
        Some(ExpiryStatus::Expired) => Duration::ZERO,
        None => RESYNC,
    };
    let left = |then: Timestamp| Duration::try_from(then.duration_since(now)).unwrap_or_default();
    wake.map_or(RESYNC, left).min(due).min(RESYNC)
}

/// When the TTL of a Sandbox expires, and whether it has expired or is about to.
fn expiry(object: &Sandbox, now: Timestamp) -> (Option<Timestamp>, Option<ExpiryStatus>) {
    let Some(wanted) = &object.spec.ttl else { return (None, None) };
    let created = object.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let updated = status::spec_changed_at(object, now);
    let Some(end) = ttl::sandbox_expiry(wanted, TtlAnchors { created, updated, unmatched_since: None })
    else {
        return (None, None);
    };
    let from = match wanted.offset_from {
        TtlOffset::CreatedAt => created,
        TtlOffset::UpdatedAt => updated,
    };
    (Some(end), Some(ttl::expiry_status(from, end, now)))
}

/// Deletes a Sandbox whose TTL has expired. The delete has a precondition on the version that was read, so that a concurrent
/// extension of the TTL wins.
async fn expire(object: &Sandbox, ctx: &Context) -> Result<Action, ReconcileError> {
    let kube = &ctx.common.kube;
    write_status(object, &status::expired_status(object), ctx).await?;
    let home = object.namespace();
    let fresh: Option<Sandbox> = kube
        .get(home.as_deref(), &object.name_any())
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    let now = (ctx.common.clock)();
    let is_over = |it: &Sandbox| it.uid() == object.uid() && expiry(it, now).1 == Some(ExpiryStatus::Expired);
    let Some(fresh) = fresh.filter(is_over).filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    kube.delete_unchanged(&fresh).await.map_err(ReconcileStep::Remove.wrap_error())?;
    let note = "TTL expired; deleting the Sandbox and its forks";
    ctx.common.events.publish(&fresh, EventSpec::normal("Expire", "Expired", note)).await;
    Ok(Action::await_change())
}

/// What was observed of the forks, and when to requeue.
type ForksOutcome = Result<(SandboxObservation, Option<Timestamp>), ReconcileError>;

/// Reconciles the forks and local workloads of a Sandbox.
async fn reconcile_forks(object: &Sandbox, at: StatusContext, ctx: &Context) -> ForksOutcome {
    let key = routing_key(object);
    // validate (no client required)
    let mut observed = SandboxObservation { key: key.clone(), ..SandboxObservation::default() };
    if let Err(refusal) = validate::validate(object, &key, &ctx.claimants(&key)) {
        return Ok((with_rejection(observed, &refusal), None));
    }
    // dereference (client required, read only)
    let place = fork_target::fork_target(object, ctx);
    let read = tokio::try_join!(
        dereference::read_namespace(object, &place),
        dereference::list_owned(object, &place),
        dereference::local_workloads(object, ctx),
    );
    let (around, made, locals) = read.map_err(ReconcileStep::Dereference.wrap_error())?;
    let work = ForkPass {
        object,
        key: &key,
        target: &place,
        namespace: &around,
        owned: &made,
        locals: &locals,
        status_ctx: at,
    };
    // build, decide (no client required), act (client required)
    let done = match Box::pin(work.run(ctx)).await? {
        Ok(done) => done,
        Err(refusal) => return reject_spec(&work, observed, refusal).await,
    };
    // status (no client required, but to write it)
    let accepted = work
        .missing_endpoint_target()
        .unwrap_or_else(|| ConditionUpdate::yes(types::ACCEPTED, reasons::ACCEPTED, ""));
    observed.conditions = vec![accepted, work.baseline_resolved(), status::compute_ready(&done.built)];
    let said = work.fork_statuses(&done.forks).await.map_err(ReconcileStep::Dereference.wrap_error())?;
    if !done.is_blocked {
        observed.conditions.push(status::forks_ready(&said));
    }
    let wake = next_wake(done.requeue_at, &said, at);
    let forks: Vec<ForkStatus> = said.into_iter().map(|(fork, _)| fork).collect();
    let routed = route_status::observe_routes(object, &forks, ctx.snapshotter.latest_snapshot().as_deref());
    observed.forks = Some(forks);
    let (connected, finding) = status::locals_connected(object, &locals);
    observed.locals = connected;
    observed.virtuals = Some(work.virtual_statuses());
    observed.conditions.push(finding);
    observed.conditions.push(routed.condition.clone());
    observed.routes = Some(routed);
    Ok((observed, wake))
}

/// When to requeue. Scheduling failures are only visible in events, which are not watched.
fn next_wake(
    wake: Option<Timestamp>,
    said: &[(ForkStatus, ForkReadiness)],
    at: StatusContext,
) -> Option<Timestamp> {
    let is_open = |(_, seen): &(ForkStatus, ForkReadiness)| {
        seen.problem.as_ref().is_some_and(|(reason, _)| *reason != reasons::PROGRESS_DEADLINE_EXCEEDED)
    };
    let look = said.iter().any(is_open).then(|| at.now.saturating_add(POD_EVENTS_POLL).unwrap_or(at.now));
    wake.into_iter().chain(look).min()
}

/// Rejects a spec. Existing objects are kept, except that a fork whose pods a Service selects as the baseline's is scaled to zero
/// until the fork or the Service changes.
async fn reject_spec(work: &ForkPass<'_>, observed: SandboxObservation, refusal: Rejection) -> ForksOutcome {
    let stopped = work.scale_down_misselected().await.map_err(ReconcileStep::Act.wrap_error())?;
    let wake = rejection_retry_at(&refusal, work.status_ctx);
    if stopped.is_empty() {
        return Ok((with_rejection(observed, &refusal), wake));
    }
    let names = stopped.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let message = format!("{}; Deployment {names} is scaled to zero until then", refusal.message);
    let before = work.object.status.clone().unwrap_or_default().forks;
    let forks = before.into_iter().map(|fork| match &fork.workload {
        Some(it) if stopped.contains(it) => {
            let message = "scaled to zero: a Service would select its pods as the baseline's".to_owned();
            ForkStatus { replicas: 0, ready_replicas: 0, message, ..fork }
        }
        _ => fork,
    });
    let observed = SandboxObservation { forks: Some(forks.collect()), ..observed };
    Ok((with_rejection(observed, &Rejection { message, ..refusal }), wake))
}

fn with_rejection(observed: SandboxObservation, refusal: &Rejection) -> SandboxObservation {
    SandboxObservation { conditions: status::rejected_conditions(refusal), ..observed }
}

/// When to retry after a rejection that can be lifted without a watched object changing: a quota or a permission.
fn rejection_retry_at(refusal: &Rejection, at: StatusContext) -> Option<Timestamp> {
    (refusal.reason == reasons::FORBIDDEN).then(|| at.now.saturating_add(FORBIDDEN_RETRY).unwrap_or(at.now))
}

fn baseline_unresolved(reason: &'static str, why: String) -> Vec<ConditionUpdate> {
    vec![
        ConditionUpdate::yes(types::ACCEPTED, reasons::ACCEPTED, ""),
        ConditionUpdate::no(types::BASELINE_RESOLVED, reason, why),
    ]
}

/// Writes the status if it changed, and publishes events for the transitions.
async fn write_status(object: &Sandbox, new: &SandboxStatus, ctx: &Context) -> Result<(), ReconcileError> {
    let old = object.status.as_ref();
    let written =
        ctx.common.kube.write_status(object, old, new).await.map_err(ReconcileStep::Status.wrap_error())?;
    let phase = new.phase.map(events::phase_label);
    ctx.common.metrics.sandbox_phase(&runner::namespaced_name(&object.metadata), phase);
    if written == StatusWrite::Changed {
        let before = old.cloned().unwrap_or_default();
        for one in events::diff(&before, new) {
            ctx.common.events.publish(object, one).await;
        }
        tracing::debug!(namespace = object.namespace(), name = object.name_any(), phase, "status updated");
    }
    Ok(())
}
