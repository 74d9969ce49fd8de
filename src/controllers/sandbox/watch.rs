//! What leads to a look at a Sandbox: itself, its baselines, the Services around them, its forks and their pods, its local
//! workloads, and the control plane of its cluster.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _, stream};
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
use sandbox::api::{Sandbox, names};
use serde::de::DeserializeOwned;

use super::{
    context::{Context, Ref, reference},
    far,
    index::{Index, Spot},
    locals, look, outposts, reconcile, remove, rivals, routes,
};
use crate::{
    api::CaptControlPlane,
    controllers::common::{self, board::Board, drive, outpost::Ground},
};

const KIND: &str = "Sandbox";

type Own = DeserializeGuard<Sandbox>;

/// Looks after all Sandboxes until `stop`, and then until the reconciles that run are over.
pub fn run<S>(
    common: &Arc<common::Context>,
    board: Arc<Board>,
    ground: Ground,
    stop: S,
) -> impl Future<Output = ()> + Send + use<S>
where
    S: Future<Output = ()> + Send + Sync + 'static,
{
    let control_planes = control_planes(common, &ground);
    let ctx = Arc::new(Context::new(Arc::clone(common), board, ground));
    let controller = controller(&ctx);
    let (seen, stop) = (controller.store(), stop.shared());
    let log = drive::log(KIND, common);
    ctx.know(controller.store());
    let own = changes(common.kube.client(), common.settings.namespace.as_deref(), &ctx.index);
    let own = stream::select(own, locals::follow(&ctx));
    let told = stream::select(own, stream::iter(ctx.heard()).flatten());
    let (meter, index) = (Arc::clone(&common.meter), Arc::clone(&ctx.index));
    let (routes, profiles) = (routes::follow(Arc::clone(&ctx)), of_profiles(Arc::clone(&ctx)));
    let outposts = outposts::follow(Arc::clone(&ctx));
    let work = controller
        .with_config(Config::default().concurrency(common.settings.concurrency))
        .watches_stream(
            control_planes,
            drive::concerning(KIND, common, move |it| of_control_plane(&index, &it)),
        )
        .reconcile_on(told.inspect(move |it| {
            meter.told(KIND, &format!("{}/{}", it.namespace.as_deref().unwrap_or_default(), it.name));
        }))
        .graceful_shutdown_on(stop.clone())
        .run(
            |object, ctx: Arc<Context>| {
                let common = Arc::clone(&ctx.common);
                async move {
                    let object = remove::bare(object, &ctx).await?;
                    let look = move |object: Arc<Sandbox>, _| async move {
                        Box::pin(reconcile(&object, &ctx)).await
                    };
                    drive::drive(KIND, object, common, look).await
                }
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
            ctx,
        )
        .for_each(log);
    async move {
        tokio::select! {
            () = drive::finish(work, seen, stop) => {}
            () = routes => {}
            () = profiles => {}
            () = outposts => {}
        }
    }
}

/// The controller of all Sandboxes. Those that wait for a key are woken when the one who had it is not known any more: before
/// that they would find it taken.
fn controller(ctx: &Arc<Context>) -> Controller<Own> {
    let (reader, writer) = reflector::store();
    let (known, waker, meter) = (reader.clone(), ctx.waker(), Arc::clone(&ctx.common.meter));
    let own = watcher(drive::api::<Own>(&ctx.common), drive::own(&ctx.common));
    let changes = reflector::reflector(writer, own).inspect_ok(move |event| {
        let is_free = match event {
            Event::Delete(_) | Event::InitDone => true,
            Event::Apply(it) => rivals::is_out(it.meta()),
            Event::Init | Event::InitApply(_) => false,
        };
        let all = if is_free { known.state() } else { Vec::new() };
        let waiting = all.iter().filter_map(|it| it.0.as_ref().ok()).filter(|it| rivals::is_waiting(it));
        for one in waiting {
            // Nobody listens any more when the controller ends.
            let _ended = waker.unbounded_send(reference(&at(one), &one.name_any()));
        }
    });
    let told = changes.applied_objects().inspect_ok(move |it| meter.told(KIND, &drive::path(it.meta())));
    Controller::for_stream(told, reader)
}

/// The control planes of other clusters, as they change; nobody knows them but the operator's own cluster.
fn control_planes(
    common: &common::Context,
    ground: &Ground,
) -> impl Stream<Item = Result<PartialObjectMeta<CaptControlPlane>, watcher::Error>> + Send + use<> {
    match ground {
        Ground::Home(_) => watcher(drive::api(common), watcher::Config::default())
            .default_backoff()
            .touched_objects()
            .boxed(),
        Ground::Outpost(_) => stream::empty().boxed(),
    }
}

/// Tells of the likenesses in another cluster, for as long as it is polled.
pub(super) fn of_cluster(
    client: &Client,
    spot: &Spot,
    ctx: &Context,
) -> impl Future<Output = ()> + Send + use<> {
    let likenesses = watcher::Config::default().labels(names::ORIGIN_LABEL);
    let changed = events::<PartialObjectMeta<Sandbox>>(client, Some(&spot.namespace), likenesses);
    let (index, waker, spot) = (Arc::clone(&ctx.index), ctx.waker(), spot.clone());
    async move {
        let mut changed = std::pin::pin!(changed);
        while let Some(event) = changed.next().await {
            let told = match event {
                Event::Apply(it) | Event::InitApply(it) | Event::Delete(it) => {
                    vec![reference(&spot, &it.name_any())]
                }
                Event::Init => Vec::new(),
                // What went while nobody looked was told by nobody.
                Event::InitDone => references(&index.at(|it| *it == spot)),
            };
            // Nobody listens any more when the controller ends.
            if told.into_iter().any(|one| waker.unbounded_send(one).is_err()) {
                return;
            }
        }
    }
}

/// Wakes everybody when pods find a place where they did not, for as long as it is polled.
async fn of_profiles(ctx: Arc<Context>) {
    if let Ground::Outpost(mut profiles) = ctx.ground.clone() {
        while profiles.changed().await.is_ok() {
            let waker = ctx.waker();
            // Nobody listens any more when the controller ends.
            let all = references(&ctx.index.at(|_| true));
            let _ended = all.into_iter().try_for_each(|one| waker.unbounded_send(one));
        }
    }
    // Watches end only with us.
    std::future::pending::<()>().await;
}

/// The Sandboxes that changes around them concern.
fn changes(
    client: &Client,
    namespace: Option<&str>,
    index: &Arc<Index>,
) -> impl Stream<Item = Ref> + Send + use<> {
    let forks = watcher::Config::default().labels(names::FORK_LABEL);
    let everything = watcher::Config::default;
    let deployments = events::<PartialObjectMeta<Deployment>>(client, namespace, everything());
    let services = events::<Service>(client, namespace, everything());
    let pods = events::<PartialObjectMeta<Pod>>(client, namespace, forks);
    let (of_deployment, of_service) = (Arc::clone(index), Arc::clone(index));
    let deployments = deployments.map(move |it| deployment(&of_deployment, it));
    let services = services.map(move |it| service(&of_service, it));
    let pods = pods.map(move |it| match it {
        Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod) => member(&pod),
        Event::Init | Event::InitDone => Vec::new(),
    });
    stream::select(deployments, stream::select(services, pods)).flat_map(stream::iter)
}

fn events<K>(
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
            tracing::debug!(kind = KIND, %error, "a watch stumbled");
            None
        }
    })
}

fn at<K: Resource>(object: &K) -> Spot {
    Spot { cluster: None, namespace: object.meta().namespace.clone().unwrap_or_default() }
}

/// The Sandbox that an object was made for. Pods have another owner, and a label.
fn member<K: Resource>(object: &K) -> Vec<Ref> {
    let labels = object.meta().labels.as_ref();
    let labelled = labels.and_then(|it| it.get(names::SANDBOX_LABEL)).map(String::as_str);
    let name = look::owner(object.meta()).or(labelled);
    name.map(|name| reference(&at(object), name)).into_iter().collect()
}

/// A fork wakes its Sandbox, and a baseline wakes those that are made from it.
fn deployment(index: &Index, event: Event<PartialObjectMeta<Deployment>>) -> Vec<Ref> {
    let (object, is_gone) = match event {
        Event::Apply(object) | Event::InitApply(object) => (object, false),
        Event::Delete(object) => (object, true),
        Event::Init => return Vec::new(),
        // What went while nobody looked was told by nobody.
        Event::InitDone => return references(&index.at(|it| it.cluster.is_none())),
    };
    let own = member(&object);
    if !own.is_empty() {
        return own;
    }
    let spot = at(&object);
    let names = if is_gone {
        index.bereft(&spot, &object.name_any())
    } else {
        index.concerned(&spot, &object.metadata)
    };
    names.iter().map(|name| reference(&spot, name)).collect()
}

/// A fork's Service wakes its Sandbox, and another all of its neighbours: it may lead to one of their baselines now.
fn service(index: &Index, event: Event<Service>) -> Vec<Ref> {
    let (object, is_gone) = match event {
        Event::Apply(object) | Event::InitApply(object) => (object, false),
        Event::Delete(object) => (object, true),
        Event::Init | Event::InitDone => return Vec::new(),
    };
    let own = member(&object);
    if !own.is_empty() {
        return own;
    }
    let digest = (!is_gone).then(|| digest(&object));
    references(&index.beside(&at(&object), &object.name_any(), digest))
}

/// Of what is looked at in a Service. Its status is not.
fn digest(service: &Service) -> u64 {
    let mut hasher = DefaultHasher::new();
    let maps: [Option<&BTreeMap<String, String>>; 2] =
        [service.metadata.labels.as_ref(), service.metadata.annotations.as_ref()];
    maps.hash(&mut hasher);
    service.metadata.uid.hash(&mut hasher);
    serde_json::to_string(&service.spec).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn references(readers: &[super::index::Reader]) -> Vec<Ref> {
    readers.iter().map(|(spot, name)| reference(spot, name)).collect()
}

fn of_control_plane(index: &Index, it: &PartialObjectMeta<CaptControlPlane>) -> Vec<Ref> {
    let is_concerned = |spot: &Spot| {
        let cluster = spot.cluster.as_deref();
        it.metadata.namespace.as_deref() == Some(&spot.namespace)
            && cluster.is_some_and(|cluster| far::belongs(&it.metadata, cluster))
    };
    references(&index.at(is_concerned))
}
