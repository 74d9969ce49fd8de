//! Takes over Services, so that their traffic goes through the router, and restores them.
//!
//! | file | does |
//! |---|---|
//! | `watch_cache` | caches of watched objects, reduced to the fields in use |
//! | `watch` | runs the controller; which Services a change triggers |
//! | `validate` | which takeover is requested, if it is possible; pure |
//! | `dereference` | namespace, base Service, endpoints and routers from the caches; decides nothing |
//! | `decide` | the next step; pure |
//! | `build` | the base Service and the patches; pure |
//! | `act` | executes the step |
//! | `events` | the events of a step; pure |
//! | `timers` | in-process timers |
//!
//! A Service is taken over by a single patch of its selector and target ports. Before that, a second Service, the base
//! Service, has its original selector and the same endpoints, and every ready router listens. The original spec is kept in an
//! annotation until the Service is restored. Without a ready router for [`decide::PATIENCE`] it is restored immediately:
//! sandboxes may fail, their baselines must not.

mod act;
mod build;
mod decide;
mod dereference;
mod events;
#[cfg(test)]
mod tests;
mod timers;
mod validate;
mod watch;
mod watch_cache;

use std::{sync::Arc, time::Duration};

use capt_kinds::sandbox::names;
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt as _, core::DeserializeGuard, runtime::controller::Action};
use sandbox::service::is_managed;
use tokio_util::sync::CancellationToken;

pub use self::watch::run;
use self::{dereference::TakeoverWatches, timers::TakeoverTimers};
use crate::common::{
    self,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

/// The context of every reconcile.
pub struct Context {
    /// The context of all controllers.
    pub common: Arc<common::Context>,
    timers: TakeoverTimers,
}

impl Context {
    /// A context with fresh timers.
    pub fn new(common: Arc<common::Context>) -> Self {
        Self { common, timers: TakeoverTimers::default() }
    }
}

impl runner::ControllerContext for Context {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

type GuardedService = DeserializeGuard<Service>;

/// Executes the next takeover step of a Service.
async fn reconcile(
    object: &Service,
    seen: &TakeoverWatches,
    ctx: &Context,
    halt: &CancellationToken,
) -> Result<Action, ReconcileError> {
    // The caches of an unreachable cluster never sync.
    tokio::select! {
        () = seen.wait_synced() => {}
        () = halt.cancelled() => return Ok(Action::await_change()),
    }
    // A change of a base Service concerns the Service that it belongs to.
    if let Some(of) = object.labels().get(names::BASE_OF_LABEL) {
        let base = seen.service(&object.namespace().unwrap_or_default(), of);
        return match base.as_ref().map(|it| &it.0) {
            Some(Ok(base)) => reconcile_service(base, seen, ctx).await,
            Some(Err(_)) | None => Ok(Action::await_change()),
        };
    }
    reconcile_service(object, seen, ctx).await
}

async fn reconcile_service(
    object: &Service,
    seen: &TakeoverWatches,
    ctx: &Context,
) -> Result<Action, ReconcileError> {
    if is_managed(object) || object.metadata.deletion_timestamp.is_some() {
        // The base Service is garbage collected by its owner reference.
        return Ok(Action::await_change());
    }
    // dereference, validate (no client required: the caches are kept by watches)
    let Some(facts) = seen.collect_inputs(object, &ctx.timers, (ctx.common.clock)()) else {
        return Ok(Action::await_change());
    };
    // decide (no client required)
    let step = decide::decide(&facts);
    // act, events (client required); a Service has no status of ours
    let pause = act::apply_step(object, step, ctx).await.map_err(ReconcileStep::Act.wrap_error())?;
    Ok(Action::requeue(pause.unwrap_or(RESYNC)))
}

/// Requeue delay after a step. The watch usually triggers earlier, unless the write changed nothing.
const WRITE_REQUEUE: Duration = Duration::from_millis(200);
/// Resync interval. Reconciles read only caches, and all traffic of the Service depends on its state.
const RESYNC: Duration = Duration::from_secs(30);
