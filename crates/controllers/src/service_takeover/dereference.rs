//! The inputs of a takeover decision, read from watch caches without requests.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use capt_dataplane::LISTENERS_ANNOTATION;
use capt_kinds::sandbox::{LocalWorkload, Sandbox, names};
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
use sandbox::service::{TakeoverMode, is_managed, is_taken_over, overridden_services, takeover_mode};

use super::{
    GuardedService, build,
    timers::TakeoverTimers,
    validate::requested_mode,
    watch,
    watch_cache::{ServiceEndpoints, WatchCache, service_endpoints, watch_into},
};
use crate::common::{self, runner};

/// The inputs of a takeover decision.
#[derive(Debug, Clone, Default)]
pub(super) struct TakeoverInputs {
    pub(super) service: Service,
    /// Whether routing is requested by its annotation or its namespace.
    pub(super) is_requested: bool,
    /// The base Service, which has the original selector.
    pub(super) base_service: Option<Service>,
    /// The ready endpoint addresses of the Service.
    pub(super) endpoints: BTreeSet<String>,
    /// The ready endpoint addresses of the base Service.
    pub(super) base_endpoints: BTreeSet<String>,
    /// The ports on which each ready router listens.
    pub(super) router_ports: Vec<BTreeSet<u16>>,
    /// Listener ports assigned to other Services of the namespace.
    pub(super) used_ports: BTreeSet<u16>,
    /// How long no router has been ready.
    pub(super) without_router: Option<Duration>,
    /// How long ago the Service was last reverted by another client.
    pub(super) since_revert: Option<Duration>,
    /// Current time.
    pub(super) now: Timestamp,
}

/// The watch caches.
pub(super) struct TakeoverWatches {
    pub(super) services: Store<GuardedService>,
    slices: Arc<WatchCache<ServiceEndpoints>>,
    /// Readiness by router pod.
    pods: Arc<WatchCache<bool>>,
    /// Listener ports by router Lease.
    leases: Arc<WatchCache<BTreeSet<u16>>>,
    /// The Services that each Sandbox and each local workload overrides.
    sandboxes: Arc<WatchCache<Vec<String>>>,
    locals: Arc<WatchCache<Vec<String>>>,
    /// Whether routing is enabled for all Services of a namespace.
    namespaces: Arc<WatchCache<bool>>,
}

/// Services to reconcile.
type TriggerStream = futures::stream::BoxStream<'static, ObjectRef<GuardedService>>;

impl TakeoverWatches {
    /// Starts the watches. They make progress only while the returned stream of triggered Services is polled.
    pub(super) fn start(
        ctx: &common::Context,
        services: Store<GuardedService>,
    ) -> (Arc<Self>, TriggerStream) {
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
        // An operator restricted to one namespace may lack the permission to list others.
        let home = match &ctx.settings.namespace {
            Some(namespace) => all().fields(&format!("metadata.name={namespace}")),
            None => all(),
        };
        let spaces = Api::<Namespace>::all(ctx.kube.client().clone());
        let slices =
            watch_into(Arc::clone(&seen.slices), (runner::scoped_api(ctx), all()), service_endpoints);
        let pods = watch_into(Arc::clone(&seen.pods), (runner::scoped_api(ctx), routers()), is_pod_ready);
        let leases =
            watch_into(Arc::clone(&seen.leases), (runner::scoped_api(ctx), routers()), lease_listeners);
        let sandboxes =
            watch_into(Arc::clone(&seen.sandboxes), (runner::scoped_api(ctx), all()), sandbox_services);
        let locals = watch_into(Arc::clone(&seen.locals), (runner::scoped_api(ctx), all()), local_services);
        let namespaces = watch_into(Arc::clone(&seen.namespaces), (spaces, home), is_routed);
        let of = |it: &Arc<Self>| Arc::clone(it);
        let (one, two, three) = (of(&seen), of(&seen), of(&seen));
        let (four, five, six) = (of(&seen), of(&seen), of(&seen));
        let woken = [
            trigger_on(slices, move |it| watch::services_of_slice(&one, &it)),
            trigger_on(pods, move |it| watch::relevant_in_namespace(&two, &it.namespace)),
            trigger_on(leases, move |it| watch::relevant_in_namespace(&three, &it.namespace)),
            trigger_on(sandboxes, move |it| watch::while_active_services(&four, &it)),
            trigger_on(locals, move |it| watch::while_active_services(&five, &it)),
            trigger_on(namespaces, move |it| watch::all_in_namespace(&six, &it)),
        ];
        (seen, futures::stream::select_all(woken).boxed())
    }

    /// Waits until all caches are synced: before that, a missing object may exist.
    pub(super) async fn wait_synced(&self) {
        tokio::join!(
            self.slices.wait_synced(),
            self.pods.wait_synced(),
            self.leases.wait_synced(),
            self.sandboxes.wait_synced(),
            self.locals.wait_synced(),
            self.namespaces.wait_synced()
        );
    }

    /// Whether routing is enabled for all Services of a namespace.
    pub(super) fn is_namespace_routed(&self, namespace: &str) -> bool {
        self.namespaces.get("", namespace).unwrap_or(false)
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<Arc<GuardedService>> {
        self.services.get(&ObjectRef::<GuardedService>::new(name).within(namespace))
    }

    /// The inputs for a Service; `None` if it is not, and was not, subject to a takeover.
    pub(super) fn collect_inputs(
        &self,
        service: &Service,
        memory: &TakeoverTimers,
        now: Timestamp,
    ) -> Option<TakeoverInputs> {
        let namespace = service.namespace().unwrap_or_default();
        let wanted = match requested_mode(service, self.is_namespace_routed(&namespace)) {
            Some(TakeoverMode::Enabled) => true,
            Some(TakeoverMode::WhileActive) => self.is_overridden(&namespace, &service.name_any()),
            None => false,
        };
        let annotated =
            service.annotations().contains_key(names::LISTEN_ANNOTATION) || is_taken_over(service);
        let base_service = self.service(&namespace, &build::base_service_name(service));
        let base_service = base_service.and_then(|it| it.0.clone().ok());
        if !wanted && !annotated && base_service.is_none() {
            return None;
        }
        let routers = self.ready_router_ports(&namespace);
        let kept = base_service.as_ref().map(|it| self.ready_endpoints(&namespace, &it.name_any()));
        Some(TakeoverInputs {
            service: service.clone(),
            is_requested: wanted,
            endpoints: self.ready_endpoints(&namespace, &service.name_any()),
            base_endpoints: kept.unwrap_or_default(),
            base_service,
            used_ports: self.used_ports(&namespace, service),
            without_router: memory.without_router(&namespace, !routers.is_empty()),
            since_revert: memory.since_revert(&format!("{namespace}/{}", service.name_any())),
            router_ports: routers,
            now,
        })
    }

    /// Whether a Sandbox or a local workload overrides a Service.
    fn is_overridden(&self, namespace: &str, service: &str) -> bool {
        let mut all =
            self.sandboxes.list_namespace(namespace).into_iter().chain(self.locals.list_namespace(namespace));
        all.any(|(_, uses)| uses.iter().any(|it| it == service))
    }

    fn ready_endpoints(&self, namespace: &str, service: &str) -> BTreeSet<String> {
        let slices =
            self.slices.list_namespace(namespace).into_iter().filter(|(_, it)| it.service == service);
        slices.flat_map(|(_, it)| it.ready).collect()
    }

    /// The listener ports of each ready router, by its Lease.
    fn ready_router_ports(&self, namespace: &str) -> Vec<BTreeSet<u16>> {
        let ready = self.pods.list_namespace(namespace).into_iter().filter(|(_, is_ready)| *is_ready);
        ready.map(|(name, _)| self.leases.get(namespace, &name).unwrap_or_default()).collect()
    }

    fn used_ports(&self, namespace: &str, own: &Service) -> BTreeSet<u16> {
        let all = self.services.state();
        let others = all.iter().filter_map(|it| it.0.as_ref().ok()).filter(|it| {
            it.metadata.namespace.as_deref() == Some(namespace)
                && it.metadata.uid != own.metadata.uid
                && !is_managed(it)
        });
        others.flat_map(|it| build::announced_listeners(it).into_values()).collect()
    }
}

fn trigger_on<V: Send + 'static>(
    changes: impl Stream<Item = V> + Send + 'static,
    of: impl Fn(V) -> Vec<ObjectRef<GuardedService>> + Send + 'static,
) -> TriggerStream {
    changes.flat_map(move |it| futures::stream::iter(of(it))).boxed()
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

fn lease_listeners(lease: &Lease) -> BTreeSet<u16> {
    let text = lease.annotations().get(LISTENERS_ANNOTATION);
    text.into_iter().flat_map(|it| it.split(',')).filter_map(|it| it.parse().ok()).collect()
}

fn is_routed(namespace: &Namespace) -> bool {
    takeover_mode(namespace.annotations()) == Some(TakeoverMode::Enabled)
}

fn sandbox_services(object: &DeserializeGuard<Sandbox>) -> Vec<String> {
    object.0.iter().flat_map(overridden_services).map(str::to_owned).collect()
}

fn local_services(object: &DeserializeGuard<LocalWorkload>) -> Vec<String> {
    let alive = object.0.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    let services = alive.flat_map(|it| it.status.iter().flat_map(|it| &it.services));
    services.map(|it| it.service.clone()).collect()
}
