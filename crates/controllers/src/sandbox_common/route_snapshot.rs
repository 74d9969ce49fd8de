//! The desired route table of the cluster and the routers that serve it, recomputed from watches.
//!
//! Each router computes its own table from its own watches with the same function. The controllers compute it once for all
//! namespaces, to report in the status of a Sandbox or `RouteGroup` whether the routers have programmed it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use capt_dataplane::route_inputs::{RouteInputs, TableScope, WatchSet, readable};
use capt_kinds::sandbox::{ForkStatus, Phase, RouteGroup, Sandbox, names};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    ResourceExt,
    core::ObjectMeta,
    runtime::{reflector::Store, watcher},
};
use sandbox::{
    mesh::MeshPlan,
    routes::{
        OwnerRoutes, RouteOwner, RouterObservation, Routes, TableHistory, effective_key, programming_status,
    },
};
use tokio::sync::watch;

use super::{http_routes::HttpRouteCache, propagation::PropagationTimer};
use crate::common::{Context, ControllerMetricsSink, runner};

/// Debounce: changes within this time lead to one recomputation.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The desired routes and the observed routers at one moment.
#[derive(Debug)]
pub struct RouteSnapshot {
    /// The desired route table.
    pub routes: Routes,
    /// The router pods and the revisions they serve.
    pub routers: Vec<RouterObservation>,
    /// UIDs of Sandboxes that are being deleted: the table has no routes for them.
    pub deleting: BTreeSet<String>,
    /// Sandboxes that are ready, as `namespace/name`.
    pub ready: BTreeSet<String>,
    /// The generation of each `RouteGroup` that the table was computed from.
    pub generations: BTreeMap<RouteOwner, i64>,
    /// The desired `HTTPRoute` objects of a service mesh.
    pub mesh: MeshPlan,
    /// `RouteGroup` metadata by requested routing key, without those that are being deleted.
    pub groups: BTreeMap<String, Vec<ObjectMeta>>,
    /// The fork statuses that the table was computed from, by Sandbox UID.
    fork_statuses: BTreeMap<String, Vec<ForkStatus>>,
}

impl RouteSnapshot {
    /// Whether the routes of a Sandbox were computed from these fork statuses.
    pub fn has_current_forks(&self, uid: &str, forks: &[ForkStatus]) -> bool {
        let is_same = |one: &ForkStatus, other: &ForkStatus| {
            (&one.workload, &one.services, one.message.is_empty())
                == (&other.workload, &other.services, other.message.is_empty())
        };
        let known = self.fork_statuses.get(uid).map(Vec::as_slice).unwrap_or_default();
        known.len() == forks.len() && known.iter().zip(forks).all(|(one, other)| is_same(one, other))
    }

    /// Summary of a `RouteGroup` for change detection: its routes, ready members, and router and mesh messages.
    pub fn group_summary(&self, owner: &RouteOwner) -> Option<(OwnerRoutes, usize, String)> {
        let own = self.routes.owners.get(owner)?;
        let done = own.members.iter().filter(|it| self.ready.contains(*it)).count();
        let said = programming_status(own, &self.routes, &self.routers, None);
        let mesh = self.mesh.condition_for(owner, own).map(|it| it.message);
        Some((own.clone(), done, format!("{} {} {mesh:?}", said.routers, said.condition.message)))
    }

    /// Test constructor.
    #[cfg(test)]
    pub fn from_parts(
        routes: Routes,
        seen: Vec<RouterObservation>,
        ready: BTreeSet<String>,
        generations: BTreeMap<RouteOwner, i64>,
    ) -> Self {
        let (deleting, fork_statuses, mesh) = (BTreeSet::new(), BTreeMap::new(), MeshPlan::default());
        let groups = BTreeMap::new();
        Self { routes, routers: seen, deleting, ready, generations, mesh, groups, fork_statuses }
    }

    /// Each namespace with ready routers, and whether all of them have programmed the desired revision.
    fn programmed_namespaces(&self) -> BTreeMap<&str, bool> {
        let ready = self.routers.iter().filter(|it| it.ready).map(|it| it.namespace.as_str());
        ready.map(|it| (it, self.is_programmed(it))).collect()
    }

    /// Whether every ready router of a namespace has programmed the desired revision.
    pub fn is_programmed(&self, namespace: &str) -> bool {
        let here = |it: &&RouterObservation| it.ready && it.namespace == namespace;
        let wanted = self.routes.revisions.get(namespace);
        self.routers.iter().filter(here).all(|it| it.revision.is_some() && it.revision.as_ref() == wanted)
    }
}

/// Recomputes the route snapshot whenever a watched object changes.
pub struct RouteSnapshotter {
    latest: Arc<RwLock<Option<Arc<RouteSnapshot>>>>,
    changes: watch::Receiver<u64>,
    /// Dropping this aborts the watch tasks.
    _watches: WatchSet,
}

impl Debug for RouteSnapshotter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RouteSnapshotter").finish_non_exhaustive()
    }
}

impl RouteSnapshotter {
    /// Starts the watches and the recomputation task.
    pub fn start(ctx: &Context) -> Self {
        let (mut watches, watch_events) = WatchSet::new(log_watch_error);
        let seen = RouteWatches::start(ctx, &mut watches);
        let latest = Arc::<RwLock<Option<Arc<RouteSnapshot>>>>::default();
        let (made, changes) = watch::channel(0);
        let work =
            rebuild_on_change(seen, watch_events, Arc::clone(&latest), (made, Arc::clone(&ctx.metrics)));
        watches.add_task(tokio::spawn(work).abort_handle());
        Self { latest, changes, _watches: watches }
    }

    /// The latest snapshot; none before all watches have completed their initial list.
    pub fn latest_snapshot(&self) -> Option<Arc<RouteSnapshot>> {
        self.latest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A handle that reads the latest snapshot without borrowing the snapshotter.
    pub fn snapshot_reader(&self) -> impl Fn() -> Option<Arc<RouteSnapshot>> + Send + use<> {
        let latest = Arc::clone(&self.latest);
        move || latest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A receiver that changes with every new snapshot.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

/// Recomputes the snapshot after each change, until all senders are gone.
async fn rebuild_on_change(
    seen: RouteWatches,
    mut changes: watch::Receiver<u64>,
    latest: Arc<RwLock<Option<Arc<RouteSnapshot>>>>,
    (made, meter): (watch::Sender<u64>, Arc<dyn ControllerMetricsSink>),
) {
    seen.wait_until_ready().await;
    let mut propagation = PropagationTimer::default();
    let mut before: Option<Arc<RouteSnapshot>> = None;
    loop {
        changes.mark_unchanged();
        let snapshot = Arc::new(seen.build_snapshot(before.as_deref()));
        before = Some(Arc::clone(&snapshot));
        for took in propagation.observe(Instant::now(), snapshot.programmed_namespaces()) {
            meter.routes_propagated(took);
        }
        *latest.write().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        made.send_modify(|count| *count += 1);
        if changes.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
}

/// The watch stores that a snapshot is computed from.
struct RouteWatches {
    objects: RouteInputs,
    leases: Store<Lease>,
    pods: Store<Pod>,
    http_routes: HttpRouteCache,
    preview_domain: Option<String>,
    /// Restricts Services and routers to one namespace; `None` means all.
    namespace: Option<String>,
}

/// A forbidden watch never becomes ready, and without it there is no snapshot: this is logged as a warning.
fn log_watch_error(error: &watcher::Error) {
    let refused = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 403,
        _ => false,
    };
    if refused {
        tracing::warn!(%error, "not permitted to watch route objects; see `--namespace` in docs/deploying.md");
    } else {
        tracing::debug!(%error, "route watch error, restarting");
    }
}

impl RouteWatches {
    fn start(ctx: &Context, watches: &mut WatchSet) -> Self {
        let routers = || watcher::Config::default().labels(names::ROUTER_LABEL);
        let (http_routes, namespace) = (HttpRouteCache::default(), ctx.settings.namespace.as_deref());
        watches
            .add_task(tokio::spawn(http_routes.watch_objects(ctx, watches.change_sender())).abort_handle());
        Self {
            http_routes,
            preview_domain: ctx.settings.preview_domain.clone(),
            namespace: ctx.settings.namespace.clone(),
            // Sandboxes and groups of all namespaces, as in a router: a group may have members in other namespaces, and an older
            // object there may hold a routing key.
            objects: RouteInputs::new(watches, ctx.kube.client(), None, namespace),
            leases: watches.watch_store(runner::scoped_api(ctx), routers()),
            pods: watches.watch_store(runner::scoped_api(ctx), routers()),
        }
    }

    /// Waits for the initial list of every watch. A watch that never starts blocks the first snapshot.
    async fn wait_until_ready(&self) {
        // An error means that the writer was dropped, which happens only when this task is aborted too.
        let _all_or_over = tokio::join!(
            self.objects.wait_ready(),
            self.leases.wait_until_ready(),
            self.pods.wait_until_ready()
        );
    }

    /// Computes the snapshot of the current stores; `before` is the previous one.
    fn build_snapshot(&self, before: Option<&RouteSnapshot>) -> RouteSnapshot {
        let (sandboxes, groups) = (self.objects.sandboxes.state(), self.objects.groups.state());
        let view =
            TableScope { domain: self.preview_domain.as_deref(), namespace: self.namespace.as_deref() };
        let mut made = self.objects.build_routes(view);
        made.history =
            Arc::new(before.map_or_else(TableHistory::default, |it| it.routes.history.with(&it.routes)));
        let going = readable(&sandboxes).into_iter().filter(|it| it.metadata.deletion_timestamp.is_some());
        let forks = |it: &Sandbox| Some((it.uid()?, it.status.clone().unwrap_or_default().forks));
        let ready = readable(&sandboxes).into_iter().filter(|it| is_sandbox_ready(it));
        let generation =
            |it: &&RouteGroup| (RouteOwner::group(it), it.metadata.generation.unwrap_or_default());
        let routers = self.routers();
        RouteSnapshot {
            mesh: MeshPlan::new(
                &made,
                &readable(&groups),
                &routers,
                self.http_routes.snapshot(),
                before.map(|it| &it.mesh),
            ),
            ready: ready.map(|it| runner::namespaced_name(&it.metadata)).collect(),
            generations: readable(&groups).iter().map(generation).collect(),
            deleting: going.filter_map(ResourceExt::uid).collect(),
            groups: groups_by_key(&readable(&groups)),
            fork_statuses: readable(&sandboxes).into_iter().filter_map(forks).collect(),
            routers,
            routes: made,
        }
    }

    /// Each router pod, with the revision from its Lease.
    fn routers(&self) -> Vec<RouterObservation> {
        let leases = self.leases.state();
        let one = |pod: &Arc<Pod>| {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let is_its =
                |it: &&Arc<Lease>| it.name_any() == name && it.namespace().as_ref() == Some(&namespace);
            let lease = leases.iter().find(is_its);
            let revision = lease.and_then(|it| it.annotations().get(names::REVISION_ANNOTATION).cloned());
            RouterObservation { ready: is_pod_ready(pod), revision, namespace, name }
        };
        self.pods.state().iter().map(one).collect()
    }
}

/// Groups by routing key, reduced to the metadata that decides which one is older.
fn groups_by_key(groups: &[&RouteGroup]) -> BTreeMap<String, Vec<ObjectMeta>> {
    let mut all: BTreeMap<String, Vec<ObjectMeta>> = BTreeMap::new();
    for group in groups.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
        let meta = &group.metadata;
        let age = ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            creation_timestamp: meta.creation_timestamp.clone(),
            ..ObjectMeta::default()
        };
        let key = effective_key(group.spec.routing_key.as_deref(), meta.uid.as_deref());
        all.entry(key).or_default().push(age);
    }
    all
}

fn is_sandbox_ready(sandbox: &Sandbox) -> bool {
    sandbox.status.as_ref().is_some_and(|it| it.phase == Some(Phase::Ready))
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}
