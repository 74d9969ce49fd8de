//! Services whose traffic goes to the router: takes them over, and gives them back.
//!
//! | file | does |
//! |---|---|
//! | `facts` | reads the namespace, the keeper, endpoints and routers; decides nothing |
//! | `decide` | what is to be done next; pure |
//! | `build` | the keeper and the patches; pure |
//! | `act` | does it, and tells |
//!
//! A Service is taken over by one patch of its selector and its target ports. Before that a second Service, the keeper, has
//! the selector, its endpoints are those of the first, and every router that is ready listens. What the Service was
//! stands in an annotation until it is given back. Without a ready router for [`decide::PATIENCE`] it is given back at
//! once: sandboxes may fail, their baselines may not.

mod act;
mod build;
mod decide;
mod facts;
mod memory;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        WatchStreamExt as _,
        controller::{Action, Config},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use sandbox::{
    api::{LocalWorkload, Sandbox, names},
    service::{Routing, is_ours, routing},
};
use tokio_util::sync::CancellationToken;

use self::memory::Memory;
use crate::{
    controllers::common::{self, drive},
    k8s::K8sError,
};

const KIND: &str = "Service";

/// What every reconcile needs.
pub struct Context {
    /// What all controllers need.
    pub common: Arc<common::Context>,
    memory: Memory,
}

impl Context {
    /// With nothing remembered yet.
    pub fn new(common: Arc<common::Context>) -> Self {
        Self { common, memory: Memory::default() }
    }
}

type Guarded = DeserializeGuard<Service>;

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let log = drive::log(KIND, &ctx.common);
    let objects = drive::api::<Guarded>(&ctx.common);
    let controller = drive::controller(KIND, &ctx.common, objects, watcher::Config::default());
    let (seen, stop) = (controller.store(), stop.cancelled_owned().shared());
    let (of_slices, of_pods, of_leases, of_namespaces) =
        (controller.store(), controller.store(), controller.store(), controller.store());
    let (of_sandboxes, of_locals) = (controller.store(), controller.store());
    let routers = || watcher::Config::default().labels(names::ROUTER_LABEL);
    let client = ctx.common.kube.client().clone();
    // A namespace says something of all its Services. Who may see one namespace alone cannot see what it says.
    let namespaces = match &ctx.common.settings.namespace {
        Some(_) => futures::stream::empty().boxed(),
        None => watcher(Api::<Namespace>::all(client), watcher::Config::default())
            .default_backoff()
            .touched_objects()
            .boxed(),
    };
    let work = controller
        // One after another: two Services of a namespace must not be given the same port.
        .with_config(Config::default().concurrency(1))
        .watches(drive::api::<EndpointSlice>(&ctx.common), watcher::Config::default(), move |it| {
            of_service(&of_slices, &it)
        })
        .watches(drive::api::<Pod>(&ctx.common), routers(), move |it| {
            in_namespace(&of_pods, it.namespace().as_deref())
        })
        .watches(drive::api::<Lease>(&ctx.common), routers(), move |it| {
            in_namespace(&of_leases, it.namespace().as_deref())
        })
        .watches(
            drive::api::<PartialObjectMeta<Sandbox>>(&ctx.common),
            watcher::Config::default(),
            move |it| while_active(&of_sandboxes, it.namespace().as_deref()),
        )
        .watches(
            drive::api::<PartialObjectMeta<LocalWorkload>>(&ctx.common),
            watcher::Config::default(),
            move |it| while_active(&of_locals, it.namespace().as_deref()),
        )
        .watches_stream(namespaces, move |it: Namespace| {
            in_namespace(&of_namespaces, it.metadata.name.as_deref())
        })
        .graceful_shutdown_on(stop.clone())
        .run(
            |object, ctx: Arc<Context>| {
                let common = Arc::clone(&ctx.common);
                drive::drive(KIND, object, common, move |it, _| async move { reconcile(&it, &ctx).await })
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
            ctx,
        )
        .for_each(log);
    drive::finish(work, seen, stop).await;
}

/// The Service of a slice, if it has anything to do with us.
fn of_service(all: &Store<Guarded>, slice: &EndpointSlice) -> Vec<ObjectRef<Guarded>> {
    let Some(name) = slice.labels().get("kubernetes.io/service-name") else { return Vec::new() };
    let namespace = slice.namespace().unwrap_or_default();
    let found = all.get(&ObjectRef::<Guarded>::new(name).within(&namespace));
    let found = found.filter(|it| concerns_us(it));
    found.map(|it| ObjectRef::from_obj(it.as_ref())).into_iter().collect()
}

/// The Services of a namespace that have anything to do with us.
fn in_namespace(all: &Store<Guarded>, namespace: Option<&str>) -> Vec<ObjectRef<Guarded>> {
    let here = |it: &Arc<Guarded>| it.meta().namespace.as_deref() == namespace;
    all.state().into_iter().filter(here).map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}

/// The Services of a namespace whose traffic goes to the router as long as somebody needs it.
fn while_active(all: &Store<Guarded>, namespace: Option<&str>) -> Vec<ObjectRef<Guarded>> {
    let is = |it: &Arc<Guarded>| {
        let annotations = it.meta().annotations.as_ref();
        it.meta().namespace.as_deref() == namespace
            && annotations.is_some_and(|it| routing(it) == Some(Routing::WhileActive))
    };
    all.state().into_iter().filter(is).map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}

fn concerns_us(object: &Guarded) -> bool {
    let annotations = object.meta().annotations.as_ref();
    annotations.is_some_and(|all| all.keys().any(|it| it.starts_with(names::GROUP)))
}

/// Brings a Service one step further.
async fn reconcile(object: &Service, ctx: &Context) -> Result<Action, K8sError> {
    if is_ours(object) || object.metadata.deletion_timestamp.is_some() {
        // What keeps a Service's selector goes with the Service, by its owner reference.
        return Ok(Action::await_change());
    }
    let Some(facts) = facts::gather(object, ctx).await? else { return Ok(Action::await_change()) };
    match act::act(object, decide::decide(&facts), ctx).await? {
        Some(pause) => Ok(Action::requeue(pause)),
        None => Ok(Action::await_change()),
    }
}

/// The next step comes right behind.
const AT_ONCE: Duration = Duration::from_millis(1);
