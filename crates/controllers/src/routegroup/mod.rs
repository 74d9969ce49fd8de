//! Controller of `RouteGroup`: reports the matched Sandboxes and whether the routing key reaches their forks. Routers read groups
//! themselves; this controller compares what they have with what they should have, and writes `HTTPRoutes` for a mesh.

mod act;
mod decide;
mod dereference;
mod events;
mod http_route_writer;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_kinds::sandbox::RouteGroup;
use kube::runtime::controller::Action;

use self::act::GroupOutcome;
pub use self::watch::run;
use crate::{
    common::{
        self,
        gate::matches_watch_filter,
        reconcile_error::{ReconcileError, ReconcileStep},
        runner,
    },
    sandbox_common::route_snapshot::RouteSnapshotter,
};

/// Requeue delay for a group that is newer than the route snapshot; a new snapshot usually triggers earlier.
const STALE_TABLE_REQUEUE: Duration = Duration::from_secs(1);

/// The context of every reconcile.
pub struct Context {
    common: Arc<common::Context>,
    snapshotter: Arc<RouteSnapshotter>,
}

impl runner::ControllerContext for Context {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

/// Reconciles one group.
async fn reconcile(object: &RouteGroup, ctx: &Context) -> Result<Action, ReconcileError> {
    let common = &ctx.common;
    if object.metadata.deletion_timestamp.is_some()
        || !matches_watch_filter(&object.metadata, common.settings.watch_filter.as_deref())
    {
        // The routers withdraw its routes when they see the deletion timestamp.
        return Ok(Action::await_change());
    }
    let Some(snapshot) = ctx.snapshotter.latest_snapshot() else {
        return Ok(Action::requeue(STALE_TABLE_REQUEUE));
    };
    // dereference, validate, decide (no client required: the snapshot is kept by watches)
    let now = (common.clock)();
    let routes = dereference::dereference(object, &snapshot);
    let accepted = validate::accepted_condition(object, &routes.own);
    let decision = decide::decide(object, &routes, now);
    // act (client required)
    let acted = act::act(object, &decision, ctx).await.map_err(ReconcileStep::Remove.wrap_error())?;
    if acted == GroupOutcome::Deleted {
        return Ok(Action::await_change());
    }
    // status, events (client required only to write them)
    let new = status::observed(object, (&routes, accepted), &decision, now);
    let old = object.status.as_ref();
    common.kube.write_status(object, old, &new).await.map_err(ReconcileStep::Status.wrap_error())?;
    for event in events::diff_events(&old.cloned().unwrap_or_default(), &new, decision.is_expiring()) {
        common.events.publish(object, event).await;
    }
    Ok(decision.requeue_after.map_or_else(Action::await_change, Action::requeue))
}
