//! Controller of `LocalWorkload`: validates the spec, finds the Services of the baseline, and expires sessions. The session itself
//! is written by the router that holds it.

mod decide;
mod dereference;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use capt_kinds::sandbox::LocalWorkload;
use capt_kube::k8s::K8sError;
use kube::{
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        reflector::{self, Store},
    },
};
use tokio_util::sync::WaitForCancellationFutureOwned;

use self::decide::decide;
use crate::common::{Context, runner};

const KIND: &str = "LocalWorkload";

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: WaitForCancellationFutureOwned) {
    let objects = runner::scoped_api::<DeserializeGuard<LocalWorkload>>(&ctx);
    let controller = runner::build_controller(KIND, &ctx, objects, runner::own_watch_config(&ctx));
    let (rivals, writer) = reflector::store();
    let concerns = runner::counted_mapper(KIND, &ctx, watch::locals_of_sandbox(controller.store()));
    let of_baseline = runner::counted_mapper(KIND, &ctx, watch::locals_of_baseline(controller.store()));
    let of_service = runner::counted_mapper(KIND, &ctx, watch::locals_of_service(controller.store()));
    let of_rival = runner::counted_mapper(KIND, &ctx, watch::locals_of_competitor(controller.store()));
    let controller = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches_stream(watch::watch_sandboxes(&ctx), concerns)
        .watches_stream(watch::watch_baselines(&ctx), of_baseline)
        .watches_stream(watch::watch_services(&ctx), of_service)
        .watches_stream(watch::watch_local_workloads(&ctx, writer), of_rival);
    let reconcile = move |object: Arc<LocalWorkload>, ctx: Arc<Context>| {
        let rivals = rivals.clone();
        async move { reconcile(&object, &rivals, &ctx).await }
    };
    runner::run(KIND, controller, ctx, stop, reconcile).await;
}

/// Reads the Sandbox and the Services of the baseline, and writes the status.
async fn reconcile(
    object: &LocalWorkload,
    rivals: &Store<watch::GuardedLocalWorkload>,
    ctx: &Context,
) -> Result<Action, K8sError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let around = dereference::dereference(object, rivals, &ctx.kube).await?;
    let decided = decide(object, &around, (ctx.clock)());
    ctx.kube.write_status(object, object.status.as_ref(), &decided.status).await?;
    if let Some(news) = decided.event {
        ctx.events.publish(object, news).await;
    }
    Ok(decided.requeue_after.map_or_else(Action::await_change, Action::requeue))
}
