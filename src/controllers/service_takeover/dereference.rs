//! What is there. Everything is read from what watches told; nobody is asked.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Pod, Service},
};
use kube::{
    Api, ResourceExt as _,
    core::DeserializeGuard,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use sandbox::{
    api::{LocalWorkload, Sandbox, names},
    service::{Routing, is_ours, is_taken_over, routing, uses, why_not},
};

use super::{
    Guarded, build,
    memory::Memory,
    seen::{Kept, Slice, follow, slice},
    wake,
};
use crate::{
    controllers::common::{self, drive},
    sandbox::LISTENERS_ANNOTATION,
};

/// What is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) service: Service,
    /// Whether its owner wants its traffic to go to the router.
    pub(super) wanted: bool,
    /// The Service that keeps its selector.
    pub(super) keeper: Option<Service>,
    /// The addresses behind the Service that are ready.
    pub(super) own: BTreeSet<String>,
    /// Those behind the keeper.
    pub(super) kept: BTreeSet<String>,
    /// The ports at which each ready router listens.
    pub(super) routers: Vec<BTreeSet<u16>>,
    /// Router's ports that other Services of the namespace have.
    pub(super) used: BTreeSet<u16>,
    /// How long there has been no ready router.
    pub(super) without_router: Option<Duration>,
    /// How long ago somebody took the Service back.
    pub(super) since_revert: Option<Duration>,
    /// The time.
    pub(super) now: Timestamp,
}

/// What watches told.
pub(super) struct Seen {
    pub(super) services: Store<Guarded>,
    slices: Arc<Kept<Slice>>,
    /// Whether each pod of a router takes requests.
    pods: Arc<Kept<bool>>,
    /// Where each router listens.
    leases: Arc<Kept<BTreeSet<u16>>>,
    /// The Services that each sandbox stands in for, and each local workload.
    sandboxes: Arc<Kept<Vec<String>>>,
    locals: Arc<Kept<Vec<String>>>,
    /// Whether all Services of a namespace go to the router.
    namespaces: Arc<Kept<bool>>,
}

/// Services that are to be looked at.
type Woken = futures::stream::BoxStream<'static, ObjectRef<Guarded>>;

impl Seen {
    /// Nothing yet. What the watches tell goes on as long as the stream of those who are woken is polled.
    pub(super) fn watch(ctx: &common::Context, services: Store<Guarded>) -> (Arc<Self>, Woken) {
        let seen = Arc::new(Self {
            services,
            slices: Arc::default(),
            pods: Arc::default(),
            leases: Arc::default(),
            sandboxes: Arc::default(),
            locals: Arc::default(),
            namespaces: Arc::default(),
        });
        let all = watcher::Config::default;
        let routers = || all().labels(names::ROUTER_LABEL);
        // Who looks after one namespace alone may be allowed to see that one alone.
        let home = match &ctx.settings.namespace {
            Some(namespace) => all().fields(&format!("metadata.name={namespace}")),
            None => all(),
        };
        let spaces = Api::<Namespace>::all(ctx.kube.client().clone());
        let slices = follow(Arc::clone(&seen.slices), (drive::api(ctx), all()), slice);
        let pods = follow(Arc::clone(&seen.pods), (drive::api(ctx), routers()), is_ready);
        let leases = follow(Arc::clone(&seen.leases), (drive::api(ctx), routers()), listeners);
        let sandboxes = follow(Arc::clone(&seen.sandboxes), (drive::api(ctx), all()), of_sandbox);
        let locals = follow(Arc::clone(&seen.locals), (drive::api(ctx), all()), of_local);
        let namespaces = follow(Arc::clone(&seen.namespaces), (spaces, home), is_routed);
        let of = |it: &Arc<Self>| Arc::clone(it);
        let (one, two, three) = (of(&seen), of(&seen), of(&seen));
        let (four, five, six) = (of(&seen), of(&seen), of(&seen));
        let woken = [
            wake_by(slices, move |it| wake::of_slice(&one, &it)),
            wake_by(pods, move |it| wake::in_namespace(&two, &it.namespace)),
            wake_by(leases, move |it| wake::in_namespace(&three, &it.namespace)),
            wake_by(sandboxes, move |it| wake::while_active(&four, &it)),
            wake_by(locals, move |it| wake::while_active(&five, &it)),
            wake_by(namespaces, move |it| wake::all_in(&six, &it)),
        ];
        (seen, futures::stream::select_all(woken).boxed())
    }

    /// Waits until everything was seen once: what was not seen is not absent.
    pub(super) async fn ready(&self) {
        tokio::join!(
            self.slices.ready(),
            self.pods.ready(),
            self.leases.ready(),
            self.sandboxes.ready(),
            self.locals.ready(),
            self.namespaces.ready()
        );
    }

    /// Whether all Services of a namespace go to the router.
    pub(super) fn is_routed(&self, namespace: &str) -> bool {
        self.namespaces.get("", namespace).unwrap_or(false)
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<Arc<Guarded>> {
        self.services.get(&ObjectRef::<Guarded>::new(name).within(namespace))
    }

    /// What is there of a Service; none if it has nothing to do with us.
    pub(super) fn gather(&self, service: &Service, memory: &Memory, now: Timestamp) -> Option<Facts> {
        let namespace = service.namespace().unwrap_or_default();
        let wanted = match self.wish(service, &namespace) {
            Some(Routing::Enabled) => true,
            Some(Routing::WhileActive) => self.is_used(&namespace, &service.name_any()),
            None => false,
        };
        let annotated =
            service.annotations().contains_key(names::LISTEN_ANNOTATION) || is_taken_over(service);
        let keeper = self.service(&namespace, &build::keeper_name(service));
        let keeper = keeper.and_then(|it| it.0.clone().ok());
        if !wanted && !annotated && keeper.is_none() {
            return None;
        }
        let routers = self.routers(&namespace);
        let kept = keeper.as_ref().map(|it| self.ready_behind(&namespace, &it.name_any()));
        Some(Facts {
            service: service.clone(),
            wanted,
            own: self.ready_behind(&namespace, &service.name_any()),
            kept: kept.unwrap_or_default(),
            keeper,
            used: self.used(&namespace, service),
            without_router: memory.without_router(&namespace, !routers.is_empty()),
            since_revert: memory.since_revert(&format!("{namespace}/{}", service.name_any())),
            routers,
            now,
        })
    }

    /// The Service's own word counts, and else that of its namespace, which can only be for good.
    fn wish(&self, service: &Service, namespace: &str) -> Option<Routing> {
        let own = service.annotations();
        let word = if own.contains_key(names::ROUTING_ANNOTATION) {
            routing(own)
        } else {
            self.is_routed(namespace).then_some(Routing::Enabled)
        };
        word.filter(|_| why_not(service).is_none())
    }

    /// Whether a sandbox or a local workload stands in for what is behind a Service.
    fn is_used(&self, namespace: &str, service: &str) -> bool {
        let mut all = self.sandboxes.within(namespace).into_iter().chain(self.locals.within(namespace));
        all.any(|(_, uses)| uses.iter().any(|it| it == service))
    }

    fn ready_behind(&self, namespace: &str, service: &str) -> BTreeSet<String> {
        let slices = self.slices.within(namespace).into_iter().filter(|(_, it)| it.service == service);
        slices.flat_map(|(_, it)| it.ready).collect()
    }

    /// Routers that take requests, each with the ports at which its Lease says that it listens.
    fn routers(&self, namespace: &str) -> Vec<BTreeSet<u16>> {
        let ready = self.pods.within(namespace).into_iter().filter(|(_, is_ready)| *is_ready);
        ready.map(|(name, _)| self.leases.get(namespace, &name).unwrap_or_default()).collect()
    }

    fn used(&self, namespace: &str, own: &Service) -> BTreeSet<u16> {
        let all = self.services.state();
        let others = all.iter().filter_map(|it| it.0.as_ref().ok()).filter(|it| {
            it.metadata.namespace.as_deref() == Some(namespace)
                && it.metadata.uid != own.metadata.uid
                && !is_ours(it)
        });
        others.flat_map(|it| build::announced(it).into_values()).collect()
    }
}

fn wake_by<V: Send + 'static>(
    changes: impl Stream<Item = V> + Send + 'static,
    of: impl Fn(V) -> Vec<ObjectRef<Guarded>> + Send + 'static,
) -> Woken {
    changes.flat_map(move |it| futures::stream::iter(of(it))).boxed()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

fn listeners(lease: &Lease) -> BTreeSet<u16> {
    let text = lease.annotations().get(LISTENERS_ANNOTATION);
    text.into_iter().flat_map(|it| it.split(',')).filter_map(|it| it.parse().ok()).collect()
}

fn is_routed(namespace: &Namespace) -> bool {
    routing(namespace.annotations()) == Some(Routing::Enabled)
}

fn of_sandbox(object: &DeserializeGuard<Sandbox>) -> Vec<String> {
    object.0.iter().flat_map(uses).map(str::to_owned).collect()
}

fn of_local(object: &DeserializeGuard<LocalWorkload>) -> Vec<String> {
    let alive = object.0.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    let services = alive.flat_map(|it| it.status.iter().flat_map(|it| &it.services));
    services.map(|it| it.service.clone()).collect()
}
