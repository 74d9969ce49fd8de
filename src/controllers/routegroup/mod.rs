//! `RouteGroup`: which sandboxes belong to it, and whether its key leads to their forks. Routers read groups themselves, and
//! what is said here is what they should have and what they have. For a mesh its objects are written.

mod decide;
mod mesh;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use kube::{
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        reflector::ObjectRef,
    },
};
use sandbox::{
    api::RouteGroup,
    routes::{Kind, Owner},
};
use tokio::sync::watch;

use self::decide::{Decided, decide};
use crate::{
    controllers::common::{
        self,
        board::{Board, Picture},
        drive,
        gate::passes,
    },
    k8s::{K8sError, News},
};

const KIND: &str = "RouteGroup";
/// What we do when we tell.
const ACTION: &str = "Reconcile";
/// When a group is looked at again that is not in the table yet; the table tells before, as a rule.
const SOON: Duration = Duration::from_secs(1);

type Told = watch::Receiver<u64>;
type Latest = Box<dyn Fn() -> Option<Arc<Picture>> + Send>;

/// What every reconcile gets.
pub struct Context {
    common: Arc<common::Context>,
    board: Arc<Board>,
}

/// Runs until `stop`.
pub async fn run(
    common: Arc<common::Context>,
    board: Arc<Board>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let log = drive::log(KIND, &common);
    let objects = drive::api::<DeserializeGuard<RouteGroup>>(&common);
    let controller = drive::controller(KIND, &common, objects, drive::own(&common));
    let (seen, stop) = (controller.store(), stop.shared());
    let meter = Arc::clone(&common.meter);
    let told = changes(&board);
    let told = told.inspect(move |it: &ObjectRef<DeserializeGuard<RouteGroup>>| {
        meter.told(KIND, &format!("{}/{}", it.namespace.as_deref().unwrap_or_default(), it.name));
    });
    let concurrency = common.settings.concurrency;
    let ctx = Arc::new(Context { common, board });
    let written = mesh::follow(Arc::clone(&ctx));
    let work =
        controller
            .with_config(Config::default().concurrency(concurrency))
            .reconcile_on(told)
            .graceful_shutdown_on(stop.clone())
            .run(
                |object, ctx: Arc<Context>| {
                    let common = Arc::clone(&ctx.common);
                    drive::drive(KIND, object, common, move |object, _| async move {
                        reconcile(&object, &ctx).await
                    })
                },
                |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
                ctx,
            )
            .for_each(log);
    tokio::select! {
        () = drive::finish(work, seen, stop) => {}
        () = written => {}
    }
}

/// The groups of which something else is to be said, as the table changes. The first table concerns all.
fn changes(board: &Board) -> impl Stream<Item = ObjectRef<DeserializeGuard<RouteGroup>>> + Send + use<> {
    let (mut told, latest) = (board.told(), Box::new(board.reader()) as Latest);
    told.mark_changed();
    let next = |(mut told, latest, before): (Told, Latest, Option<Arc<Picture>>)| async move {
        told.changed().await.ok()?;
        let picture = latest();
        let groups =
            picture.iter().flat_map(|it| it.routes.owners.keys()).filter(|it| it.kind == Kind::RouteGroup);
        let differs = |owner: &&Owner| {
            let of = |it: &Option<Arc<Picture>>| it.as_ref().and_then(|it| it.of_group(owner));
            of(&before) != of(&picture)
        };
        let changed: Vec<_> =
            groups.filter(differs).map(|it| ObjectRef::new(&it.name).within(&it.namespace)).collect();
        Some((stream::iter(changed), (told, latest, picture.or(before))))
    };
    stream::unfold((told, latest, None), next).flatten()
}

/// Reads the table, decides, and says so.
async fn reconcile(object: &RouteGroup, ctx: &Context) -> Result<Action, K8sError> {
    let common = &ctx.common;
    if object.metadata.deletion_timestamp.is_some()
        || !passes(&object.metadata, common.settings.watch_filter.as_deref())
    {
        // Its routes go with it: the routers see that it goes.
        return Ok(Action::await_change());
    }
    let Some(picture) = ctx.board.picture() else { return Ok(Action::requeue(SOON)) };
    let Decided { status, news, again, is_over } = decide(object, &picture, (common.clock)());
    if is_over {
        common.events.tell(object, News::normal(ACTION, "Expired", "its time is over")).await;
        // Somebody who gives it more time meanwhile wins.
        common.kube.delete_as_seen(object).await?;
        return Ok(Action::await_change());
    }
    common.kube.write_status(object, object.status.as_ref(), &status).await?;
    for one in news {
        common.events.tell(object, one).await;
    }
    Ok(again.map_or_else(Action::await_change, Action::requeue))
}
