//! What leads to a look at a Cluster: itself, and the objects that it refers to.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use kube::{
    core::{DeserializeGuard, ObjectMeta, PartialObjectMeta},
    runtime::{
        controller::Config,
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use super::{
    kind::{Cluster, ClusterSpec},
    reconcile,
};
use crate::{
    api::{CaptCluster, CaptControlPlane},
    controllers::common::{Context, cluster::owner, drive},
};

const KIND: &str = "Cluster";

type Own = DeserializeGuard<Cluster>;

/// Looks after all Clusters until `stop`, and then until the reconciles that run are over.
pub fn run(
    ctx: Arc<Context>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let controller = drive::controller(KIND, &ctx, drive::api::<Own>(&ctx), drive::own(&ctx));
    let (seen, stop) = (controller.store(), stop.shared());
    let log = drive::log(KIND, &ctx);
    let (of_network, of_control_plane) = (controller.store(), controller.store());
    let work = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches(
            drive::api::<PartialObjectMeta<CaptCluster>>(&ctx),
            watcher::Config::default(),
            drive::concerning(KIND, &ctx, move |it: PartialObjectMeta<CaptCluster>| {
                pick(&of_network, &it.metadata, |spec| {
                    spec.infrastructure_ref.as_ref().map(|it| it.name.as_str())
                })
            }),
        )
        .watches(
            drive::api::<PartialObjectMeta<CaptControlPlane>>(&ctx),
            watcher::Config::default(),
            drive::concerning(KIND, &ctx, move |it: PartialObjectMeta<CaptControlPlane>| {
                pick(&of_control_plane, &it.metadata, |spec| {
                    spec.control_plane_ref.as_ref().map(|it| it.name.as_str())
                })
            }),
        )
        .graceful_shutdown_on(stop.clone())
        .run(
            |object, ctx| drive::drive(KIND, object, ctx, reconcile),
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx),
            ctx,
        )
        .for_each(log);
    drive::finish(work, seen, stop)
}

/// The Clusters that refer to an object, or own it.
fn pick(
    store: &Store<Own>,
    other: &ObjectMeta,
    named: impl Fn(&ClusterSpec) -> Option<&str>,
) -> Vec<ObjectRef<Own>> {
    let state = store.state();
    let concerned = state.iter().filter(|it| {
        let meta = kube::Resource::meta(it.as_ref());
        let refers = it.0.as_ref().is_ok_and(|cluster| named(&cluster.spec) == other.name.as_deref());
        let owns = owner(other).is_some_and(|owner| Some(&owner.uid) == meta.uid.as_ref());
        meta.namespace == other.namespace && (refers || owns)
    });
    concerned.map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
