//! What leads to a look at a `CAPTCluster`: itself, its Cluster, its workspace, the control planes of the same Cluster.
//!
//! Of others only the metadata is watched: it tells that something changed, and what it is now is read in the reconcile.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use kube::{
    Api,
    core::{DeserializeGuard, DynamicObject, ObjectMeta, PartialObjectMeta},
    runtime::{
        controller::Config,
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use super::reconcile;
use crate::{
    api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply},
    controllers::common::{Context, cluster, drive, family::Family},
};

const KIND: &str = "CAPTCluster";

type Own = DeserializeGuard<CaptCluster>;

/// Looks after all networks until `stop`, and then until the reconciles that run are over.
pub fn run(
    ctx: Arc<Context>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let controller = drive::controller(KIND, &ctx, drive::api::<Own>(&ctx), drive::own(&ctx));
    let (seen, stop) = (controller.store(), stop.shared());
    let log = drive::log(KIND, &ctx);
    let (of_cluster, of_workspace, of_control_plane) =
        (controller.store(), controller.store(), controller.store());
    let others = watcher::Config::default;
    let clusters = cluster::resource(&ctx.cluster_version);
    let work = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches_with(
            all_clusters(&ctx),
            clusters,
            others(),
            drive::concerning(KIND, &ctx, move |it: PartialObjectMeta<DynamicObject>| {
                pick(&of_cluster, |family, _| family.is_some_and(|family| family.is(&it.metadata)))
            }),
        )
        .watches(
            drive::api::<PartialObjectMeta<WorkspaceTemplateApply>>(&ctx),
            others(),
            drive::concerning(KIND, &ctx, move |it: PartialObjectMeta<WorkspaceTemplateApply>| {
                pick(&of_workspace, |_, meta| is_concerned(meta, &it.metadata))
            }),
        )
        .watches(
            drive::api::<PartialObjectMeta<CaptControlPlane>>(&ctx),
            others(),
            drive::concerning(KIND, &ctx, move |it: PartialObjectMeta<CaptControlPlane>| {
                pick(&of_control_plane, |family, _| family.is_some_and(|family| family.has(&it.metadata)))
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

fn all_clusters(ctx: &Context) -> Api<PartialObjectMeta<DynamicObject>> {
    let (client, kind) = (ctx.kube.client().clone(), cluster::resource(&ctx.cluster_version));
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

/// A network that is looked after hears of its own workspace; one that goes, of all around it.
fn is_concerned(object: &ObjectMeta, workspace: &ObjectMeta) -> bool {
    if object.namespace != workspace.namespace {
        return false;
    }
    let owns = workspace.owner_references.iter().flatten().any(|it| Some(&it.uid) == object.uid.as_ref());
    owns || object.deletion_timestamp.is_some()
}

/// The networks that something concerns.
fn pick(store: &Store<Own>, concerns: impl Fn(Option<&Family>, &ObjectMeta) -> bool) -> Vec<ObjectRef<Own>> {
    let state = store.state();
    let concerned = state.iter().filter(|it| {
        let meta = kube::Resource::meta(it.as_ref());
        concerns(Family::of(meta).as_ref(), meta)
    });
    concerned.map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
