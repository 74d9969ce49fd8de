//! Watches that trigger a Sandbox reconcile: the Sandbox, its baselines, the Services of its namespace, its forks and their pods,
//! its local workloads, and the control plane of its cluster.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use capt_kinds::api::CaptControlPlane;
use capt_kinds::sandbox::{Sandbox, names};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Service},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        Controller, WatchStreamExt as _,
        controller::Config,
        reflector,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;

use super::{
    baseline_index::{BaselineIndex, ClusterNamespace},
    context::{Context, SandboxObjectRef, object_ref},
    deletion, dereference, key_conflict, local_workloads, reconcile, remote_clusters, remote_lifecycle,
    route_status,
};
use crate::{
    common::{self, runner},
    sandbox_common::{remote_target::SandboxScope, route_snapshot::RouteSnapshotter},
};

const KIND: &str = "Sandbox";

type GuardedSandbox = DeserializeGuard<Sandbox>;

/// Runs the controller until `stop`, then until the running reconciles have finished.
pub fn run<S>(
    common: &Arc<common::Context>,
    snapshotter: Arc<RouteSnapshotter>,
    scope: SandboxScope,
    stop: S,
) -> impl Future<Output = ()> + Send + use<S>
where
    S: Future<Output = ()> + Send + Sync + 'static,
{
    let control_planes = watch_control_planes(common, &scope);
    let ctx = Arc::new(Context::new(Arc::clone(common), snapshotter, scope));
    let controller = controller(&ctx);
    ctx.set_sandbox_store(controller.store());
    let own = watch_dependencies(common.kube.client(), common.settings.namespace.as_deref(), &ctx.index);
    let own = stream::select(own, local_workloads::watch_local_workloads(&ctx));
    let told = stream::select(own, stream::iter(ctx.take_triggers()).flatten());
    let (meter, index) = (Arc::clone(&common.metrics), Arc::clone(&ctx.index));
    let (routes, profiles) = (
        route_status::trigger_on_route_change(Arc::clone(&ctx)),
        trigger_on_profile_change(Arc::clone(&ctx)),
    );
    let remote_clusters = remote_lifecycle::run(Arc::clone(&ctx));
    let controller = controller
        .with_config(Config::default().concurrency(common.settings.concurrency))
        .watches_stream(
            control_planes,
            runner::counted_mapper(KIND, common, move |it| sandboxes_of_control_plane(&index, &it)),
        )
        .reconcile_on(told.inspect(move |it| {
            meter.enqueued(KIND, &format!("{}/{}", it.namespace.as_deref().unwrap_or_default(), it.name));
        }));
    let reconcile = |object, ctx: Arc<Context>| async move {
        let object = deletion::minimal_if_undecodable(object, &ctx).await?;
        let reconcile =
            |object: Arc<Sandbox>, ctx: Arc<Context>| async move { Box::pin(reconcile(&object, &ctx)).await };
        runner::run_reconcile(KIND, &object, &ctx, reconcile).await
    };
    let work = runner::run_guarded(KIND, controller, ctx, stop, reconcile);
    async move {
        tokio::select! {
            () = work => {}
            () = routes => {}
            () = profiles => {}
            () = remote_clusters => {}
        }
    }
}

/// The controller of all Sandboxes. Sandboxes that wait for a routing key are triggered after the store no longer contains its
/// holder; earlier they would still find the conflict.
fn controller(ctx: &Arc<Context>) -> Controller<GuardedSandbox> {
    let (reader, writer) = reflector::store();
    let (known, waker, meter) = (reader.clone(), ctx.trigger_sender(), Arc::clone(&ctx.common.metrics));
    let own =
        watcher(runner::scoped_api::<GuardedSandbox>(&ctx.common), runner::own_watch_config(&ctx.common));
    let changes = reflector::reflector(writer, own).inspect_ok(move |event| {
        let is_free = match event {
            Event::Delete(_) | Event::InitDone => true,
            Event::Apply(it) => key_conflict::has_released_key(it.meta()),
            Event::Init | Event::InitApply(_) => false,
        };
        let all = if is_free { known.state() } else { Vec::new() };
        let waiting =
            all.iter().filter_map(|it| it.0.as_ref().ok()).filter(|it| key_conflict::is_waiting_for_key(it));
        for one in waiting {
            // The receiver is dropped when the controller ends.
            let _ended = waker.unbounded_send(object_ref(&local_namespace(one), &one.name_any()));
        }
    });
    let told = changes
        .applied_objects()
        .inspect_ok(move |it| meter.enqueued(KIND, &runner::namespaced_name(it.meta())));
    Controller::for_stream(told, reader)
}

/// Watches control planes. They exist in the management cluster only.
fn watch_control_planes(
    common: &common::Context,
    scope: &SandboxScope,
) -> impl Stream<Item = Result<PartialObjectMeta<CaptControlPlane>, watcher::Error>> + Send + use<> {
    match scope {
        SandboxScope::ManagementCluster(_) => watcher(runner::scoped_api(common), watcher::Config::default())
            .default_backoff()
            .touched_objects()
            .boxed(),
        SandboxScope::WorkloadCluster(_) => stream::empty().boxed(),
    }
}

/// Watches the mirrors in a workload cluster and triggers their Sandboxes. Runs as long as it is polled.
pub(super) fn watch_mirrors(
    client: &Client,
    spot: &ClusterNamespace,
    ctx: &Context,
) -> impl Future<Output = ()> + Send + use<> {
    let likenesses = watcher::Config::default().labels(names::ORIGIN_LABEL);
    let changed = watch_events::<PartialObjectMeta<Sandbox>>(client, Some(&spot.namespace), likenesses);
    let (index, waker, spot) = (Arc::clone(&ctx.index), ctx.trigger_sender(), spot.clone());
    async move {
        let mut changed = std::pin::pin!(changed);
        while let Some(event) = changed.next().await {
            let told = match event {
                Event::Apply(it) | Event::InitApply(it) | Event::Delete(it) => {
                    vec![object_ref(&spot, &it.name_any())]
                }
                Event::Init => Vec::new(),
                // Deletions during an interrupted watch produce no events.
                Event::InitDone => object_refs(&index.sandboxes_where(|it| *it == spot)),
            };
            // The receiver is dropped when the controller ends.
            if told.into_iter().any(|one| waker.unbounded_send(one).is_err()) {
                return;
            }
        }
    }
}

/// Triggers all Sandboxes when the Fargate profiles change. Runs as long as it is polled.
async fn trigger_on_profile_change(ctx: Arc<Context>) {
    if let SandboxScope::WorkloadCluster(mut profiles) = ctx.scope.clone() {
        while profiles.changed().await.is_ok() {
            let waker = ctx.trigger_sender();
            // The receiver is dropped when the controller ends.
            let all = object_refs(&ctx.index.sandboxes_where(|_| true));
            let _ended = all.into_iter().try_for_each(|one| waker.unbounded_send(one));
        }
    }
    // The channel ends only with the process.
    std::future::pending::<()>().await;
}

/// Stream of the Sandboxes affected by changes of Deployments, Services and pods.
fn watch_dependencies(
    client: &Client,
    namespace: Option<&str>,
    index: &Arc<BaselineIndex>,
) -> impl Stream<Item = SandboxObjectRef> + Send + use<> {
    let forks = watcher::Config::default().labels(names::FORK_LABEL);
    let everything = watcher::Config::default;
    let deployments = watch_events::<PartialObjectMeta<Deployment>>(client, namespace, everything());
    let services = watch_events::<Service>(client, namespace, everything());
    let pods = watch_events::<PartialObjectMeta<Pod>>(client, namespace, forks);
    let (of_deployment, of_service) = (Arc::clone(index), Arc::clone(index));
    let deployments = deployments.map(move |it| on_deployment(&of_deployment, it));
    let services = services.map(move |it| on_service(&of_service, it));
    let pods = pods.map(move |it| match it {
        Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod) => owning_sandbox_ref(&pod),
        Event::Init | Event::InitDone => Vec::new(),
    });
    stream::select(deployments, stream::select(services, pods)).flat_map(stream::iter)
}

fn watch_events<K>(
    client: &Client,
    namespace: Option<&str>,
    which: watcher::Config,
) -> impl Stream<Item = Event<K>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    watcher(api, which).default_backoff().filter_map(async |event| match event {
        Ok(event) => Some(event),
        Err(error) => {
            tracing::debug!(kind = KIND, %error, "watch error, restarting");
            None
        }
    })
}

fn local_namespace<K: Resource>(object: &K) -> ClusterNamespace {
    ClusterNamespace { cluster: None, namespace: object.meta().namespace.clone().unwrap_or_default() }
}

/// The Sandbox that owns an object. Pods are owned by a `ReplicaSet` and carry a label instead.
fn owning_sandbox_ref<K: Resource>(object: &K) -> Vec<SandboxObjectRef> {
    let labels = object.meta().labels.as_ref();
    let labelled = labels.and_then(|it| it.get(names::SANDBOX_LABEL)).map(String::as_str);
    let name = dereference::owning_sandbox(object.meta()).or(labelled);
    name.map(|name| object_ref(&local_namespace(object), name)).into_iter().collect()
}

/// A fork triggers its Sandbox, a baseline all Sandboxes that refer to it.
fn on_deployment(
    index: &BaselineIndex,
    event: Event<PartialObjectMeta<Deployment>>,
) -> Vec<SandboxObjectRef> {
    let (object, is_gone) = match event {
        Event::Apply(object) | Event::InitApply(object) => (object, false),
        Event::Delete(object) => (object, true),
        Event::Init => return Vec::new(),
        // Deletions during an interrupted watch produce no events.
        Event::InitDone => return object_refs(&index.sandboxes_where(|it| it.cluster.is_none())),
    };
    let own = owning_sandbox_ref(&object);
    if !own.is_empty() {
        return own;
    }
    let spot = local_namespace(&object);
    let names = if is_gone {
        index.baseline_deleted(&spot, &object.name_any())
    } else {
        index.baseline_changed(&spot, &object.metadata)
    };
    names.iter().map(|name| object_ref(&spot, name)).collect()
}

/// A Service of a fork triggers its Sandbox, any other all Sandboxes of its namespace: it may select one of their baselines.
fn on_service(index: &BaselineIndex, event: Event<Service>) -> Vec<SandboxObjectRef> {
    let (object, is_gone) = match event {
        Event::Apply(object) | Event::InitApply(object) => (object, false),
        Event::Delete(object) => (object, true),
        Event::Init | Event::InitDone => return Vec::new(),
    };
    let own = owning_sandbox_ref(&object);
    if !own.is_empty() {
        return own;
    }
    let digest = (!is_gone).then(|| service_hash(&object));
    object_refs(&index.service_changed(&local_namespace(&object), &object.name_any(), digest))
}

/// Hash of the fields of a Service that affect Sandboxes; its status does not.
fn service_hash(service: &Service) -> u64 {
    let mut hasher = DefaultHasher::new();
    let maps: [Option<&BTreeMap<String, String>>; 2] =
        [service.metadata.labels.as_ref(), service.metadata.annotations.as_ref()];
    maps.hash(&mut hasher);
    service.metadata.uid.hash(&mut hasher);
    serde_json::to_string(&service.spec).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn object_refs(readers: &[super::baseline_index::SandboxKey]) -> Vec<SandboxObjectRef> {
    readers.iter().map(|(spot, name)| object_ref(spot, name)).collect()
}

fn sandboxes_of_control_plane(
    index: &BaselineIndex,
    it: &PartialObjectMeta<CaptControlPlane>,
) -> Vec<SandboxObjectRef> {
    let is_concerned = |spot: &ClusterNamespace| {
        let cluster = spot.cluster.as_deref();
        it.metadata.namespace.as_deref() == Some(&spot.namespace)
            && cluster.is_some_and(|cluster| remote_clusters::belongs_to_cluster(&it.metadata, cluster))
    };
    object_refs(&index.sandboxes_where(is_concerned))
}
