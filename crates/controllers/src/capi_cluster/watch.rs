//! Watches that trigger a reconcile of a Cluster: the Cluster and the objects that it references.

use std::sync::Arc;

use capt_kinds::api::{CaptCluster, CaptControlPlane};
use kube::{
    core::{DeserializeGuard, ObjectMeta, PartialObjectMeta},
    runtime::{
        controller::Config,
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use super::{
    cluster_types::{Cluster, ClusterSpec},
    reconcile,
};
use crate::common::{Context, cluster::owner_cluster_ref, runner};

const KIND: &str = "Cluster";

type GuardedCluster = DeserializeGuard<Cluster>;

/// Runs the controller until `stop`, then waits for the running reconciles.
pub fn run(
    ctx: Arc<Context>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let controller = runner::build_controller(
        KIND,
        &ctx,
        runner::scoped_api::<GuardedCluster>(&ctx),
        runner::own_watch_config(&ctx),
    );
    let (of_network, of_control_plane) = (controller.store(), controller.store());
    let controller = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches(
            runner::scoped_api::<PartialObjectMeta<CaptCluster>>(&ctx),
            watcher::Config::default(),
            runner::counted_mapper(KIND, &ctx, move |it: PartialObjectMeta<CaptCluster>| {
                affected_clusters(&of_network, &it.metadata, |spec| {
                    spec.infrastructure_ref.as_ref().map(|it| it.name.as_str())
                })
            }),
        )
        .watches(
            runner::scoped_api::<PartialObjectMeta<CaptControlPlane>>(&ctx),
            watcher::Config::default(),
            runner::counted_mapper(KIND, &ctx, move |it: PartialObjectMeta<CaptControlPlane>| {
                affected_clusters(&of_control_plane, &it.metadata, |spec| {
                    spec.control_plane_ref.as_ref().map(|it| it.name.as_str())
                })
            }),
        );
    runner::run(KIND, controller, ctx, stop, reconcile)
}

/// The Clusters that reference or own an object.
fn affected_clusters(
    store: &Store<GuardedCluster>,
    other: &ObjectMeta,
    named: impl Fn(&ClusterSpec) -> Option<&str>,
) -> Vec<ObjectRef<GuardedCluster>> {
    let state = store.state();
    let concerned = state.iter().filter(|it| {
        let meta = kube::Resource::meta(it.as_ref());
        let refers = it.0.as_ref().is_ok_and(|cluster| named(&cluster.spec) == other.name.as_deref());
        let owns = owner_cluster_ref(other).is_some_and(|owner| Some(&owner.uid) == meta.uid.as_ref());
        meta.namespace == other.namespace && (refers || owns)
    });
    concerned.map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
