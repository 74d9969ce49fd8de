//! Takes over Services, so that their traffic goes through the router, and restores them.
//!
//! | file | does |
//! |---|---|
//! | `watch_cache` | caches of watched objects, reduced to the fields in use |
//! | `watch` | which Services a change triggers |
//! | `dereference` | namespace, base Service, endpoints and routers from the caches; decides nothing |
//! | `decide` | the next step; pure |
//! | `build` | the base Service and the patches; pure |
//! | `act` | executes the step and publishes events |
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
#[cfg(test)]
mod tests;
mod timers;
mod watch;
mod watch_cache;

use std::{sync::Arc, time::Duration};

use capt_kinds::sandbox::names;
use capt_kube::k8s::K8sError;
use k8s_openapi::api::core::v1::Service;
use kube::{
    ResourceExt as _,
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        watcher,
    },
};
use sandbox::service::is_managed;
use tokio_util::sync::CancellationToken;

use self::{dereference::TakeoverWatches, timers::TakeoverTimers};
use crate::common::{self, runner};

const KIND: &str = "Service";

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

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let objects = runner::scoped_api::<GuardedService>(&ctx.common);
    let controller = runner::build_controller(KIND, &ctx.common, objects, watcher::Config::default());
    let (seen, woken) = TakeoverWatches::start(&ctx.common, controller.store());
    let controller = controller
        // Sequential: two Services of a namespace must not be assigned the same listener port.
        .with_config(Config::default().concurrency(1))
        .reconcile_on(woken);
    let halt = stop.clone();
    let reconcile = move |object: Arc<Service>, ctx: Arc<Context>| {
        let (seen, halt) = (Arc::clone(&seen), halt.clone());
        async move { reconcile(&object, &seen, &ctx, &halt).await }
    };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}

/// Executes the next takeover step of a Service.
async fn reconcile(
    object: &Service,
    seen: &TakeoverWatches,
    ctx: &Context,
    halt: &CancellationToken,
) -> Result<Action, K8sError> {
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
) -> Result<Action, K8sError> {
    if is_managed(object) || object.metadata.deletion_timestamp.is_some() {
        // The base Service is garbage collected by its owner reference.
        return Ok(Action::await_change());
    }
    let Some(facts) = seen.collect_inputs(object, &ctx.timers, (ctx.common.clock)()) else {
        return Ok(Action::await_change());
    };
    let pause = act::apply_step(object, decide::decide(&facts), ctx).await?;
    Ok(Action::requeue(pause.unwrap_or(RESYNC)))
}

/// Requeue delay after a step. The watch usually triggers earlier, unless the write changed nothing.
const WRITE_REQUEUE: Duration = Duration::from_millis(200);
/// Resync interval. Reconciles read only caches, and all traffic of the Service depends on its state.
const RESYNC: Duration = Duration::from_secs(30);
