//! Services whose traffic goes to the router: takes them over, and gives them back.
//!
//! | file | does |
//! |---|---|
//! | `seen` | what watches told last |
//! | `wake` | which Services are to be looked at when something changes |
//! | `facts` | the namespace, the keeper, endpoints and routers, from what watches told; decides nothing |
//! | `decide` | what is to be done next; pure |
//! | `build` | the keeper and the patches; pure |
//! | `act` | does it, and tells |
//!
//! A Service is taken over by one patch of its selector and its target ports. Before that a second Service, the keeper, has
//! the selector, its endpoints are those of the first, and every router that is ready listens. What the Service was
//! stands in an annotation until it is given back. Without a ready router for [`decide::PATIENCE`] it is given back at
//! once: sandboxes may fail, their baselines may not.

mod act;
mod build;
mod decide;
mod facts;
mod memory;
mod seen;
#[cfg(test)]
mod tests;
mod wake;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Service;
use kube::{
    ResourceExt as _,
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        watcher,
    },
};
use sandbox::{api::names, service::is_ours};
use tokio_util::sync::CancellationToken;

use self::{facts::Seen, memory::Memory};
use crate::{
    controllers::common::{self, drive},
    k8s::K8sError,
};

const KIND: &str = "Service";

/// What every reconcile needs.
pub struct Context {
    /// What all controllers need.
    pub common: Arc<common::Context>,
    memory: Memory,
}

impl Context {
    /// With nothing remembered yet.
    pub fn new(common: Arc<common::Context>) -> Self {
        Self { common, memory: Memory::default() }
    }
}

type Guarded = DeserializeGuard<Service>;

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let log = drive::log(KIND, &ctx.common);
    let objects = drive::api::<Guarded>(&ctx.common);
    let controller = drive::controller(KIND, &ctx.common, objects, watcher::Config::default());
    let (services, halt) = (controller.store(), stop.clone());
    let stop = stop.cancelled_owned().shared();
    let (seen, woken) = Seen::watch(&ctx.common, services.clone());
    let work = controller
        // One after another: two Services of a namespace must not be given the same port.
        .with_config(Config::default().concurrency(1))
        .reconcile_on(woken)
        .graceful_shutdown_on(stop.clone())
        .run(
            move |object, ctx: Arc<Context>| {
                let (common, seen, halt) = (Arc::clone(&ctx.common), Arc::clone(&seen), halt.clone());
                drive::drive(KIND, object, common, move |it, _| async move {
                    reconcile(&it, &seen, &ctx, &halt).await
                })
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
            ctx,
        )
        .for_each(log);
    drive::finish(work, services, stop).await;
}

/// Brings a Service one step further.
async fn reconcile(
    object: &Service,
    seen: &Seen,
    ctx: &Context,
    halt: &CancellationToken,
) -> Result<Action, K8sError> {
    // Watches end with the controller, and a cluster that is gone never tells.
    tokio::select! {
        () = seen.ready() => {}
        () = halt.cancelled() => return Ok(Action::await_change()),
    }
    // What somebody did to the keeper of a selector concerns the one whose selector it is.
    if let Some(of) = object.labels().get(names::BASE_OF_LABEL) {
        let base = seen.service(&object.namespace().unwrap_or_default(), of);
        return match base.as_ref().map(|it| &it.0) {
            Some(Ok(base)) => look(base, seen, ctx).await,
            Some(Err(_)) | None => Ok(Action::await_change()),
        };
    }
    look(object, seen, ctx).await
}

async fn look(object: &Service, seen: &Seen, ctx: &Context) -> Result<Action, K8sError> {
    if is_ours(object) || object.metadata.deletion_timestamp.is_some() {
        // What keeps a Service's selector goes with the Service, by its owner reference.
        return Ok(Action::await_change());
    }
    let Some(facts) = seen.gather(object, &ctx.memory, (ctx.common.clock)()) else {
        return Ok(Action::await_change());
    };
    let pause = act::act(object, decide::decide(&facts), ctx).await?;
    Ok(Action::requeue(pause.unwrap_or(NOW_AND_THEN)))
}

/// What we wrote comes back by a watch, and wakes us. If there was nothing to write it does not.
const SOON: Duration = Duration::from_millis(200);
/// A Service that goes through the router is looked at although nobody said anything: it costs nothing, and the traffic of
/// everybody depends on it.
const NOW_AND_THEN: Duration = Duration::from_secs(30);
