//! Watches of the control plane controller: the control plane, its Cluster, the `CAPTCluster` of the same Cluster, its workspaces
//! and Secrets, and EKS responses.
//!
//! Other kinds are watched by metadata only: a change triggers a reconcile, which reads the current objects.

use std::sync::Arc;

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply, names};
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
use crate::common::{self, cluster, owning_cluster::OwningCluster, runner};

const KIND: &str = "CAPTControlPlane";

type ControlPlaneGuard = DeserializeGuard<CaptControlPlane>;

/// Runs the controller until `stop`, then waits for the running reconciles.
pub fn run(
    ctx: Arc<Context>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let common = Arc::clone(&ctx.common);
    let controller = runner::build_controller(
        KIND,
        &common,
        runner::scoped_api::<ControlPlaneGuard>(&common),
        runner::own_watch_config(&common),
    );
    ctx.set_control_planes(controller.store());
    let (of_cluster, of_network) = (controller.store(), controller.store());
    let others = watcher::Config::default;
    let clusters = cluster::cluster_resource(&common.cluster_version);
    // All our Secrets have the cluster name label.
    let secrets = others().labels(names::CLUSTER_NAME_LABEL);
    let controller = controller
        .with_config(Config::default().concurrency(common.settings.concurrency))
        .owns(runner::scoped_api::<PartialObjectMeta<WorkspaceTemplateApply>>(&common), others())
        .owns(runner::scoped_api::<PartialObjectMeta<Secret>>(&common), secrets)
        .watches_with(
            clusters_api(&common),
            clusters,
            others(),
            runner::counted_mapper(KIND, &common, move |it: PartialObjectMeta<DynamicObject>| {
                matching_refs(&of_cluster, |family| family.refers_to(&it.metadata))
            }),
        )
        .watches(
            runner::scoped_api::<PartialObjectMeta<CaptCluster>>(&common),
            others(),
            runner::counted_mapper(KIND, &common, move |it: PartialObjectMeta<CaptCluster>| {
                matching_refs(&of_network, |family| family.owns(&it.metadata))
            }),
        )
        .reconcile_on(ctx.take_trigger_stream());
    runner::run(KIND, controller, ctx, stop, reconcile)
}

fn clusters_api(ctx: &common::Context) -> Api<PartialObjectMeta<DynamicObject>> {
    let (client, kind) = (ctx.kube.client().clone(), cluster::cluster_resource(&ctx.cluster_version));
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

/// The control planes whose owning Cluster satisfies `concerns`.
fn matching_refs(
    store: &Store<ControlPlaneGuard>,
    concerns: impl Fn(&OwningCluster) -> bool,
) -> Vec<ObjectRef<ControlPlaneGuard>> {
    let state = store.state();
    let family = |meta: &ObjectMeta| OwningCluster::from_metadata(meta);
    let concerned =
        state.iter().filter(|it| family(kube::Resource::meta(it.as_ref())).is_some_and(|it| concerns(&it)));
    concerned.map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
