//! Controller of `RouteGroup`: reports the matched Sandboxes and whether the routing key reaches their forks. Routers read groups
//! themselves; this controller compares what they have with what they should have, and writes `HTTPRoutes` for a mesh.

mod decide;
mod http_route_writer;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use capt_kinds::sandbox::RouteGroup;
use capt_kube::k8s::{EventSpec, K8sError};
use futures::{Stream, StreamExt as _, stream};
use kube::{
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        reflector::ObjectRef,
    },
};
use sandbox::routes::{OwnerKind, RouteOwner};
use tokio::sync::watch;

use self::decide::{RouteGroupDecision, decide};
use crate::{
    common::{self, gate::matches_watch_filter, runner},
    sandbox_common::route_snapshot::{RouteSnapshot, RouteSnapshotter},
};

const KIND: &str = "RouteGroup";
/// `action` of the events of this controller.
const ACTION: &str = "Reconcile";
/// Requeue delay for a group that is newer than the route snapshot; a new snapshot usually triggers earlier.
const STALE_TABLE_REQUEUE: Duration = Duration::from_secs(1);

type ChangeReceiver = watch::Receiver<u64>;
type SnapshotReader = Box<dyn Fn() -> Option<Arc<RouteSnapshot>> + Send>;

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

/// Runs until `stop`.
pub async fn run(
    common: Arc<common::Context>,
    snapshotter: Arc<RouteSnapshotter>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let objects = runner::scoped_api::<DeserializeGuard<RouteGroup>>(&common);
    let controller = runner::build_controller(KIND, &common, objects, runner::own_watch_config(&common));
    let meter = Arc::clone(&common.metrics);
    let told = changed_groups(&snapshotter);
    let told = told.inspect(move |it: &ObjectRef<DeserializeGuard<RouteGroup>>| {
        meter.enqueued(KIND, &format!("{}/{}", it.namespace.as_deref().unwrap_or_default(), it.name));
    });
    let concurrency = common.settings.concurrency;
    let ctx = Arc::new(Context { common, snapshotter });
    let written = http_route_writer::run(Arc::clone(&ctx));
    let controller = controller.with_config(Config::default().concurrency(concurrency)).reconcile_on(told);
    let reconcile =
        |object: Arc<RouteGroup>, ctx: Arc<Context>| async move { reconcile(&object, &ctx).await };
    tokio::select! {
        () = runner::run(KIND, controller, ctx, stop, reconcile) => {}
        () = written => {}
    }
}

/// Stream of the groups whose part of the route snapshot changed. The first snapshot triggers all.
fn changed_groups(
    snapshotter: &RouteSnapshotter,
) -> impl Stream<Item = ObjectRef<DeserializeGuard<RouteGroup>>> + Send + use<> {
    let (mut told, latest) =
        (snapshotter.subscribe(), Box::new(snapshotter.snapshot_reader()) as SnapshotReader);
    told.mark_changed();
    let next = |(mut told, latest, before): (ChangeReceiver, SnapshotReader, Option<Arc<RouteSnapshot>>)| async move {
        told.changed().await.ok()?;
        let picture = latest();
        let groups = picture
            .iter()
            .flat_map(|it| it.routes.owners.keys())
            .filter(|it| it.kind == OwnerKind::RouteGroup);
        let differs = |owner: &&RouteOwner| {
            let of = |it: &Option<Arc<RouteSnapshot>>| it.as_ref().and_then(|it| it.group_summary(owner));
            of(&before) != of(&picture)
        };
        let changed: Vec<_> =
            groups.filter(differs).map(|it| ObjectRef::new(&it.name).within(&it.namespace)).collect();
        Some((stream::iter(changed), (told, latest, picture.or(before))))
    };
    stream::unfold((told, latest, None), next).flatten()
}

/// Derives the status from the route snapshot and writes it.
async fn reconcile(object: &RouteGroup, ctx: &Context) -> Result<Action, K8sError> {
    let common = &ctx.common;
    if object.metadata.deletion_timestamp.is_some()
        || !matches_watch_filter(&object.metadata, common.settings.watch_filter.as_deref())
    {
        // The routers withdraw its routes when they see the deletion timestamp.
        return Ok(Action::await_change());
    }
    let Some(picture) = ctx.snapshotter.latest_snapshot() else {
        return Ok(Action::requeue(STALE_TABLE_REQUEUE));
    };
    let RouteGroupDecision { status, events: news, requeue_after: again, is_expired: is_over } =
        decide(object, &picture, (common.clock)());
    if is_over {
        common
            .events
            .publish(object, EventSpec::normal(ACTION, "Expired", "TTL expired; deleting the RouteGroup"))
            .await;
        // Deletes only the observed version: a concurrent extension of the TTL wins.
        common.kube.delete_unchanged(object).await?;
        return Ok(Action::await_change());
    }
    common.kube.write_status(object, object.status.as_ref(), &status).await?;
    for one in news {
        common.events.publish(object, one).await;
    }
    Ok(again.map_or_else(Action::await_change, Action::requeue))
}
