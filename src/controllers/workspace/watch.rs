//! What wakes the controller up: its own objects, what they read, what stands on them, and their runs.

use std::sync::Arc;

use futures::{FutureExt as _, Stream, StreamExt, stream::poll_fn};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
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

use super::{Context, Target, TargetKind, reconcile};
use crate::{
    api::{CaptIdentity, WorkspaceTemplate, WorkspaceTemplateApply, names},
    blueprint::Key,
    controllers::common::{self, cluster::resource, drive},
};

type Guarded = DeserializeGuard<WorkspaceTemplateApply>;
type Ref = ObjectRef<Guarded>;

const KIND: &str = "WorkspaceTemplateApply";

/// At most so many objects at once: each reads a few others from the API server.
const AT_ONCE: u16 = 32;

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, mut told: mpsc::UnboundedReceiver<Key>, stop: CancellationToken) {
    let common = Arc::clone(&ctx.common);
    let controller = drive::controller(KIND, &common, drive::api::<Guarded>(&common), drive::own(&common));
    let (seen, stop) = (controller.store(), stop.cancelled_owned().shared());
    let log = drive::log(KIND, &common);
    let objects = controller.store();
    let work = controller
        .with_config(Config::default().concurrency(AT_ONCE))
        .watches(
            drive::api::<PartialObjectMeta<WorkspaceTemplate>>(&common),
            watcher::Config::default(),
            drive::concerning(KIND, &common, reading(&ctx, TargetKind::Template)),
        )
        .watches(
            Api::<PartialObjectMeta<CaptIdentity>>::all(common.kube.client().clone()),
            watcher::Config::default(),
            drive::concerning(KIND, &common, reading(&ctx, TargetKind::Identity)),
        )
        .watches_stream(
            changes::<Secret>(&common),
            drive::concerning(KIND, &common, reading(&ctx, TargetKind::Secret)),
        )
        .watches_stream(
            changes::<ConfigMap>(&common),
            drive::concerning(KIND, &common, reading(&ctx, TargetKind::ConfigMap)),
        )
        .watches_stream(
            changes::<WorkspaceTemplateApply>(&common),
            drive::concerning(KIND, &common, neighbours(&ctx, objects.clone())),
        )
        .watches_with(
            clusters(&common),
            resource(&common.cluster_version),
            watcher::Config::default(),
            drive::concerning(KIND, &common, move |cluster: DynamicObject| of_cluster(&objects, &cluster)),
        )
        .reconcile_on(poll_fn(move |waker| told.poll_recv(waker)).map(|key| reference(&key)))
        .graceful_shutdown_on(stop.clone())
        .run(
            |object, ctx: Arc<Context>| {
                let common = Arc::clone(&ctx.common);
                drive::drive(KIND, object, common, move |object, _| async move {
                    Box::pin(reconcile(&object, &ctx)).await
                })
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
            ctx,
        )
        .for_each(log);
    drive::finish(work, seen, stop).await;
}

fn reference(key: &Key) -> Ref {
    ObjectRef::new(&key.name).within(&key.namespace)
}

fn clusters(ctx: &common::Context) -> Api<DynamicObject> {
    let kind = resource(&ctx.cluster_version);
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced_with(ctx.kube.client().clone(), namespace, &kind),
        None => Api::all_with(ctx.kube.client().clone(), &kind),
    }
}

/// That something changed, without what: Secrets of strangers have no business in our memory.
fn changes<K>(
    ctx: &common::Context,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + 'static
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + 'static,
{
    watcher(drive::api::<PartialObjectMeta<K>>(ctx), watcher::Config::default())
        .default_backoff()
        .touched_objects()
}

/// Who reads the object that changed.
fn reading<K: Resource>(
    ctx: &Arc<Context>,
    kind: TargetKind,
) -> impl Fn(K) -> Vec<Ref> + Send + Sync + 'static {
    let index = ctx.index.clone();
    move |object: K| {
        let target = Target::new(kind, &object.namespace().unwrap_or_default(), &object.name_any());
        index.readers(&target).iter().map(reference).collect()
    }
}

/// Who waits for a workspace that changed: its readers, and what is being deleted and may have waited for it to go.
fn neighbours(
    ctx: &Arc<Context>,
    objects: Store<Guarded>,
) -> impl Fn(PartialObjectMeta<WorkspaceTemplateApply>) -> Vec<Ref> + Send + Sync + 'static {
    let read = reading(ctx, TargetKind::Workspace);
    move |changed| {
        let name = changed.name_any();
        let mut all = read(changed);
        let ending = objects.state().into_iter().filter(|it| it.meta().deletion_timestamp.is_some());
        all.extend(ending.filter(|it| it.name_any() != name).map(|it| ObjectRef::from_obj(it.as_ref())));
        all
    }
}

/// The workspaces of a Cluster: its pause is theirs.
fn of_cluster(objects: &Store<Guarded>, cluster: &DynamicObject) -> Vec<Ref> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace());
    let belongs = |it: &Arc<Guarded>| {
        it.namespace() == namespace && it.labels().get(names::CLUSTER_NAME_LABEL) == Some(&name)
    };
    objects.state().into_iter().filter(belongs).map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
