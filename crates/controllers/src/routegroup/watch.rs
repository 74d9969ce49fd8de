//! What triggers a reconcile of a group: the groups, and changes of their part of the route snapshot.

use std::sync::Arc;

use capt_kinds::sandbox::RouteGroup;
use futures::{Stream, StreamExt as _, stream};
use kube::{
    core::DeserializeGuard,
    runtime::{controller::Config, reflector::ObjectRef},
};
use sandbox::routes::{OwnerKind, RouteOwner};
use tokio::sync::watch;

use super::{Context, http_route_writer, reconcile};
use crate::{
    common::{self, runner},
    sandbox_common::route_snapshot::{RouteSnapshot, RouteSnapshotter},
};

const KIND: &str = "RouteGroup";

type ChangeReceiver = watch::Receiver<u64>;
type SnapshotReader = Box<dyn Fn() -> Option<Arc<RouteSnapshot>> + Send>;

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
        let snapshot = latest();
        let groups = snapshot
            .iter()
            .flat_map(|it| it.routes.owners.keys())
            .filter(|it| it.kind == OwnerKind::RouteGroup);
        let differs = |owner: &&RouteOwner| {
            let of = |it: &Option<Arc<RouteSnapshot>>| it.as_ref().and_then(|it| it.group_summary(owner));
            of(&before) != of(&snapshot)
        };
        let changed: Vec<_> =
            groups.filter(differs).map(|it| ObjectRef::new(&it.name).within(&it.namespace)).collect();
        Some((stream::iter(changed), (told, latest, snapshot.or(before))))
    };
    stream::unfold((told, latest, None), next).flatten()
}
