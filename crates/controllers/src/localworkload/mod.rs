//! Controller of `LocalWorkload`: validates the spec, finds the Services of the baseline, and expires sessions. The session itself
//! is written by the router that holds it.

mod decide;
mod dereference;
mod events;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use capt_kinds::sandbox::LocalWorkload;
use kube::runtime::{controller::Action, reflector::Store};

pub use self::watch::run;
use crate::common::{
    Context,
    reconcile_error::{ReconcileError, ReconcileStep},
};

/// Reconciles one local workload. Writes nothing but its status.
async fn reconcile(
    object: &LocalWorkload,
    rivals: &Store<watch::GuardedLocalWorkload>,
    ctx: &Context,
) -> Result<Action, ReconcileError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    // dereference (client required, read only)
    let around = dereference::dereference(object, rivals, &ctx.kube)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    // validate, decide (no client required)
    let accepted = validate::accepted_condition(object, &around);
    let now = (ctx.clock)();
    let decision = decide::decide(object, now);
    // status, events (client required only to write them)
    let new = status::observed(object, (&around, accepted), decision, now);
    let old = object.status.as_ref();
    ctx.kube.write_status(object, old, &new).await.map_err(ReconcileStep::Status.wrap_error())?;
    if let Some(event) = events::phase_event(old.and_then(|it| it.phase), &new) {
        ctx.events.publish(object, event).await;
    }
    Ok(decision.requeue_after().map_or_else(Action::await_change, Action::requeue))
}
