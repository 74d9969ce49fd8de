//! `LocalWorkload`: whether its spec can be followed, which Services lead to what it stands in for, and what its session
//! means. The session itself is written by the router that holds it.

mod decide;
mod look;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use kube::{
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        reflector::{self, Store},
    },
};
use sandbox::api::LocalWorkload;
use tokio_util::sync::WaitForCancellationFutureOwned;

use self::decide::decide;
use crate::{
    controllers::common::{Context, drive},
    k8s::K8sError,
};

const KIND: &str = "LocalWorkload";

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: WaitForCancellationFutureOwned) {
    let log = drive::log(KIND, &ctx);
    let objects = drive::api::<DeserializeGuard<LocalWorkload>>(&ctx);
    let controller = drive::controller(KIND, &ctx, objects, drive::own(&ctx));
    let (seen, stop) = (controller.store(), stop.shared());
    let (rivals, writer) = reflector::store();
    let concerns = drive::concerning(KIND, &ctx, watch::of_sandbox(controller.store()));
    let of_baseline = drive::concerning(KIND, &ctx, watch::of_baseline(controller.store()));
    let of_service = drive::concerning(KIND, &ctx, watch::of_service(controller.store()));
    let of_rival = drive::concerning(KIND, &ctx, watch::of_rival(controller.store()));
    let work = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches_stream(watch::sandboxes(&ctx), concerns)
        .watches_stream(watch::baselines(&ctx), of_baseline)
        .watches_stream(watch::services(&ctx), of_service)
        .watches_stream(watch::locals(&ctx, writer), of_rival)
        .graceful_shutdown_on(stop.clone())
        .run(
            move |object, ctx| {
                let rivals = rivals.clone();
                let look = |object: Arc<LocalWorkload>, ctx: Arc<Context>| async move {
                    reconcile(&object, &rivals, &ctx).await
                };
                drive::drive(KIND, object, ctx, look)
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx),
            ctx,
        )
        .for_each(log);
    drive::finish(work, seen, stop).await;
}

/// Reads its sandbox and the Services of its baseline, decides, and says so.
async fn reconcile(
    object: &LocalWorkload,
    rivals: &Store<watch::Seen>,
    ctx: &Context,
) -> Result<Action, K8sError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let around = look::around(object, rivals, &ctx.kube).await?;
    let decided = decide(object, &around, (ctx.clock)());
    ctx.kube.write_status(object, object.status.as_ref(), &decided.status).await?;
    if let Some(news) = decided.news {
        ctx.events.tell(object, news).await;
    }
    Ok(decided.again.map_or_else(Action::await_change, Action::requeue))
}
