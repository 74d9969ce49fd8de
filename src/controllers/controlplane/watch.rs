//! What leads to a look at a control plane: itself, its Cluster, the network of the same Cluster, its workspaces, its
//! Secrets, and answers of EKS.
//!
//! Of others only the metadata is watched: it tells that something changed, and what it is now is read in the reconcile.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    core::{DeserializeGuard, DynamicObject, ObjectMeta, PartialObjectMeta},
    runtime::{
        controller::Config,
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use super::{Context, reconcile};
use crate::{
    api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply, names},
    controllers::common::{self, cluster, drive, family::Family},
};

const KIND: &str = "CAPTControlPlane";

type Own = DeserializeGuard<CaptControlPlane>;

/// Looks after all control planes until `stop`, and then until the reconciles that run are over.
pub fn run(
    ctx: Arc<Context>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let common = Arc::clone(&ctx.common);
    let controller = drive::controller(KIND, &common, drive::api::<Own>(&common), drive::own(&common));
    let (seen, stop) = (controller.store(), stop.shared());
    let log = drive::log(KIND, &common);
    let (of_cluster, of_network) = (controller.store(), controller.store());
    let others = watcher::Config::default;
    let clusters = cluster::resource(&common.cluster_version);
    // Only Secrets that belong to a Cluster can be ours.
    let secrets = others().labels(names::CLUSTER_NAME_LABEL);
    let work = controller
        .with_config(Config::default().concurrency(common.settings.concurrency))
        .owns(drive::api::<PartialObjectMeta<WorkspaceTemplateApply>>(&common), others())
        .owns(drive::api::<PartialObjectMeta<Secret>>(&common), secrets)
        .watches_with(
            all_clusters(&common),
            clusters,
            others(),
            drive::concerning(KIND, &common, move |it: PartialObjectMeta<DynamicObject>| {
                pick(&of_cluster, |family| family.is(&it.metadata))
            }),
        )
        .watches(
            drive::api::<PartialObjectMeta<CaptCluster>>(&common),
            others(),
            drive::concerning(KIND, &common, move |it: PartialObjectMeta<CaptCluster>| {
                pick(&of_network, |family| family.has(&it.metadata))
            }),
        )
        .reconcile_on(ctx.woken())
        .graceful_shutdown_on(stop.clone())
        .run(
            move |object, common| {
                let ctx = Arc::clone(&ctx);
                drive::drive(KIND, object, common, move |object, _| reconcile(object, ctx))
            },
            |object, error, common| drive::policy(KIND, &object, error, &common),
            common,
        )
        .for_each(log);
    drive::finish(work, seen, stop)
}

fn all_clusters(ctx: &common::Context) -> Api<PartialObjectMeta<DynamicObject>> {
    let (client, kind) = (ctx.kube.client().clone(), cluster::resource(&ctx.cluster_version));
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

/// The control planes of a family that something concerns.
fn pick(store: &Store<Own>, concerns: impl Fn(&Family) -> bool) -> Vec<ObjectRef<Own>> {
    let state = store.state();
    let family = |meta: &ObjectMeta| Family::of(meta);
    let concerned =
        state.iter().filter(|it| family(kube::Resource::meta(it.as_ref())).is_some_and(|it| concerns(&it)));
    concerned.map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
