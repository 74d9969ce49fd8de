//! Watches that trigger a reconcile of a `CAPTCluster`: the object, its Cluster, its workspace, and the control planes of
//! the same Cluster.
//!
//! Other objects are watched by metadata only; the reconcile reads their current content.

use std::sync::Arc;

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
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
use crate::common::{Context, cluster, owning_cluster::OwningCluster, runner};

const KIND: &str = "CAPTCluster";

type GuardedCaptCluster = DeserializeGuard<CaptCluster>;

/// Runs the controller until `stop`, then waits for the running reconciles.
pub fn run(
    ctx: Arc<Context>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let controller = runner::build_controller(
        KIND,
        &ctx,
        runner::scoped_api::<GuardedCaptCluster>(&ctx),
        runner::own_watch_config(&ctx),
    );
    let (of_cluster, of_workspace, of_control_plane) =
        (controller.store(), controller.store(), controller.store());
    let others = watcher::Config::default;
    let clusters = cluster::cluster_resource(&ctx.cluster_version);
    let controller = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches_with(
            cluster_api(&ctx),
            clusters,
            others(),
            runner::counted_mapper(KIND, &ctx, move |it: PartialObjectMeta<DynamicObject>| {
                affected_objects(&of_cluster, |family, _| {
                    family.is_some_and(|family| family.refers_to(&it.metadata))
                })
            }),
        )
        .watches(
            runner::scoped_api::<PartialObjectMeta<WorkspaceTemplateApply>>(&ctx),
            others(),
            runner::counted_mapper(KIND, &ctx, move |it: PartialObjectMeta<WorkspaceTemplateApply>| {
                affected_objects(&of_workspace, |_, meta| is_affected(meta, &it.metadata))
            }),
        )
        .watches(
            runner::scoped_api::<PartialObjectMeta<CaptControlPlane>>(&ctx),
            others(),
            runner::counted_mapper(KIND, &ctx, move |it: PartialObjectMeta<CaptControlPlane>| {
                affected_objects(&of_control_plane, |family, _| {
                    family.is_some_and(|family| family.owns(&it.metadata))
                })
            }),
        );
    runner::run(KIND, controller, ctx, stop, reconcile)
}

fn cluster_api(ctx: &Context) -> Api<PartialObjectMeta<DynamicObject>> {
    let (client, kind) = (ctx.kube.client().clone(), cluster::cluster_resource(&ctx.cluster_version));
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

/// A workspace affects its owner. An object that is being deleted is affected by every workspace in its namespace.
fn is_affected(object: &ObjectMeta, workspace: &ObjectMeta) -> bool {
    if object.namespace != workspace.namespace {
        return false;
    }
    let owns = workspace.owner_references.iter().flatten().any(|it| Some(&it.uid) == object.uid.as_ref());
    owns || object.deletion_timestamp.is_some()
}

/// The objects for which `concerns` holds.
fn affected_objects(
    store: &Store<GuardedCaptCluster>,
    concerns: impl Fn(Option<&OwningCluster>, &ObjectMeta) -> bool,
) -> Vec<ObjectRef<GuardedCaptCluster>> {
    let state = store.state();
    let concerned = state.iter().filter(|it| {
        let meta = kube::Resource::meta(it.as_ref());
        concerns(OwningCluster::from_metadata(meta).as_ref(), meta)
    });
    concerned.map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
