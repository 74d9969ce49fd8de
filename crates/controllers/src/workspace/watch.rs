//! Watches that trigger a reconcile: the objects, their references, their dependents, their Clusters and their runs.

use std::sync::Arc;

use capt_kinds::api::{CaptIdentity, WorkspaceTemplate, WorkspaceTemplateApply, names};
use capt_model::workspaces::WorkspaceKey;
use futures::{Stream, StreamExt, stream::poll_fn};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        controller::Config,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ReferenceKind, ReferenceTarget, WorkspaceContext, reconcile};
use crate::common::{self, cluster::cluster_resource, runner};

type GuardedApply = DeserializeGuard<WorkspaceTemplateApply>;
type ApplyRef = ObjectRef<GuardedApply>;

const KIND: &str = "WorkspaceTemplateApply";

/// Limits the load on the API server: each reconcile reads several other objects.
const MAX_CONCURRENT_RECONCILES: u16 = 32;

/// Runs the controller until `stop`.
pub async fn run(
    ctx: Arc<WorkspaceContext>,
    mut told: mpsc::UnboundedReceiver<WorkspaceKey>,
    stop: CancellationToken,
) {
    let common = Arc::clone(&ctx.common);
    let controller = runner::build_controller(
        KIND,
        &common,
        runner::scoped_api::<GuardedApply>(&common),
        runner::own_watch_config(&common),
    );
    let objects = controller.store();
    let controller = controller
        .with_config(Config::default().concurrency(MAX_CONCURRENT_RECONCILES))
        .watches(
            runner::scoped_api::<PartialObjectMeta<WorkspaceTemplate>>(&common),
            watcher::Config::default(),
            runner::counted_mapper(KIND, &common, map_to_readers(&ctx, ReferenceKind::Template)),
        )
        .watches(
            Api::<PartialObjectMeta<CaptIdentity>>::all(common.kube.client().clone()),
            watcher::Config::default(),
            runner::counted_mapper(KIND, &common, map_to_readers(&ctx, ReferenceKind::Identity)),
        )
        .watches(
            Api::<PartialObjectMeta<Namespace>>::all(common.kube.client().clone()),
            namespace_watch_config(&common),
            runner::counted_mapper(KIND, &common, map_to_readers(&ctx, ReferenceKind::Namespace)),
        )
        .watches_stream(
            metadata_changes::<Secret>(&common),
            runner::counted_mapper(KIND, &common, map_to_readers(&ctx, ReferenceKind::Secret)),
        )
        .watches_stream(
            metadata_changes::<ConfigMap>(&common),
            runner::counted_mapper(KIND, &common, map_to_readers(&ctx, ReferenceKind::ConfigMap)),
        )
        .watches_stream(
            metadata_changes::<WorkspaceTemplateApply>(&common),
            runner::counted_mapper(KIND, &common, map_to_waiting(&ctx, objects.clone())),
        )
        .watches_with(
            cluster_api(&common),
            cluster_resource(&common.cluster_version),
            watcher::Config::default(),
            runner::counted_mapper(KIND, &common, move |cluster: DynamicObject| {
                map_cluster(&objects, &cluster)
            }),
        )
        .reconcile_on(poll_fn(move |waker| told.poll_recv(waker)).map(|key| object_ref(&key)));
    let reconcile = |object: Arc<WorkspaceTemplateApply>, ctx: Arc<WorkspaceContext>| async move {
        Box::pin(reconcile(&object, &ctx)).await
    };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}

/// An operator of one namespace may have permission to read that one only.
fn namespace_watch_config(ctx: &common::Context) -> watcher::Config {
    match &ctx.settings.namespace {
        Some(namespace) => watcher::Config::default().fields(&format!("metadata.name={namespace}")),
        None => watcher::Config::default(),
    }
}

fn object_ref(key: &WorkspaceKey) -> ApplyRef {
    ObjectRef::new(&key.name).within(&key.namespace)
}

fn cluster_api(ctx: &common::Context) -> Api<DynamicObject> {
    let kind = cluster_resource(&ctx.cluster_version);
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced_with(ctx.kube.client().clone(), namespace, &kind),
        None => Api::all_with(ctx.kube.client().clone(), &kind),
    }
}

/// Metadata-only watch: contents of unrelated Secrets must not be held in memory.
fn metadata_changes<K>(
    ctx: &common::Context,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + 'static
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + 'static,
{
    watcher(runner::scoped_api::<PartialObjectMeta<K>>(ctx), watcher::Config::default())
        .default_backoff()
        .touched_objects()
}

/// Maps a changed object to the objects that reference it.
fn map_to_readers<K: Resource>(
    ctx: &Arc<WorkspaceContext>,
    kind: ReferenceKind,
) -> impl Fn(K) -> Vec<ApplyRef> + Send + Sync + 'static {
    let index = ctx.reference_index.clone();
    move |object: K| {
        let target = ReferenceTarget::new(kind, &object.namespace().unwrap_or_default(), &object.name_any());
        index.readers(&target).iter().map(object_ref).collect()
    }
}

/// Maps a changed workspace to the objects that may wait for it: its readers, and all objects that are being deleted.
fn map_to_waiting(
    ctx: &Arc<WorkspaceContext>,
    objects: Store<GuardedApply>,
) -> impl Fn(PartialObjectMeta<WorkspaceTemplateApply>) -> Vec<ApplyRef> + Send + Sync + 'static {
    let read = map_to_readers(ctx, ReferenceKind::Workspace);
    move |changed| {
        let name = changed.name_any();
        let mut all = read(changed);
        let ending = objects.state().into_iter().filter(|it| it.meta().deletion_timestamp.is_some());
        all.extend(ending.filter(|it| it.name_any() != name).map(|it| ObjectRef::from_obj(it.as_ref())));
        all
    }
}

/// Maps a Cluster to its workspaces, which are paused together with it.
fn map_cluster(objects: &Store<GuardedApply>, cluster: &DynamicObject) -> Vec<ApplyRef> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace());
    let belongs = |it: &Arc<GuardedApply>| {
        it.namespace() == namespace && it.labels().get(names::CLUSTER_NAME_LABEL) == Some(&name)
    };
    objects.state().into_iter().filter(belongs).map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
