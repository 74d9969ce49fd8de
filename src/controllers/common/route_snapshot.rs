//! All routes of the cluster as they should be, and the routers that should have them.
//!
//! Each router makes its table from its own watches, by the same function. Here it is made once for all namespaces, so that
//! it can be said of a Sandbox whether the routers have what they should have.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    ResourceExt,
    core::ObjectMeta,
    runtime::{reflector::Store, watcher},
};
use sandbox::{
    api::{ForkStatus, Phase, RouteGroup, Sandbox, names},
    mesh::Plan,
    routes::{History, Own, Owner, RouterSeen, Routes, key_of, programmed},
};
use tokio::sync::watch;

use super::{Context, Meter, drive, httproutes::HttpRoutes, propagation::Propagation};
use crate::sandbox::watched::{View, Watched, Watches, readable};

/// Changes within this time make one table.
const TOGETHER: Duration = Duration::from_millis(50);

/// The routes at one moment.
#[derive(Debug)]
pub struct Picture {
    /// As they should be.
    pub routes: Routes,
    /// The routers.
    pub routers: Vec<RouterSeen>,
    /// Sandboxes that were going then, by uid: their routes are not in it.
    pub going: BTreeSet<String>,
    /// Sandboxes that were ready then, as `namespace/name`.
    pub ready: BTreeSet<String>,
    /// The generations of the groups whose specs are in it.
    pub generations: BTreeMap<Owner, i64>,
    /// What a mesh shall have.
    pub mesh: Plan,
    /// The groups by the keys that they ask for; those that go do not.
    pub groups: BTreeMap<String, Vec<ObjectMeta>>,
    /// What was known of the forks of each Sandbox then, by its uid.
    made_from: BTreeMap<String, Vec<ForkStatus>>,
}

impl Picture {
    /// Whether the routes of a Sandbox are made from forks that are as these are.
    pub fn knows(&self, uid: &str, forks: &[ForkStatus]) -> bool {
        let is_same = |one: &ForkStatus, other: &ForkStatus| {
            (&one.workload, &one.services, one.message.is_empty())
                == (&other.workload, &other.services, other.message.is_empty())
        };
        let known = self.made_from.get(uid).map(Vec::as_slice).unwrap_or_default();
        known.len() == forks.len() && known.iter().zip(forks).all(|(one, other)| is_same(one, other))
    }

    /// What is to be said of a group, in a form that can be compared.
    pub fn of_group(&self, owner: &Owner) -> Option<(Own, usize, String)> {
        let own = self.routes.owners.get(owner)?;
        let done = own.members.iter().filter(|it| self.ready.contains(*it)).count();
        let said = programmed(own, &self.routes, &self.routers, None);
        let mesh = self.mesh.said(owner, own).map(|it| it.message);
        Some((own.clone(), done, format!("{} {} {mesh:?}", said.routers, said.finding.message)))
    }

    /// The same picture with this in it; for tests.
    #[cfg(test)]
    pub fn of(
        routes: Routes,
        seen: Vec<RouterSeen>,
        ready: BTreeSet<String>,
        generations: BTreeMap<Owner, i64>,
    ) -> Self {
        let (going, made_from, mesh) = (BTreeSet::new(), BTreeMap::new(), Plan::default());
        let groups = BTreeMap::new();
        Self { routes, routers: seen, going, ready, generations, mesh, groups, made_from }
    }

    /// The namespaces that have ready routers, each with whether all of these have the routes that they should have.
    fn in_force(&self) -> BTreeMap<&str, bool> {
        let ready = self.routers.iter().filter(|it| it.ready).map(|it| it.namespace.as_str());
        ready.map(|it| (it, self.is_in_force(it))).collect()
    }

    /// Whether every ready router of a namespace has the routes that it should have.
    pub fn is_in_force(&self, namespace: &str) -> bool {
        let here = |it: &&RouterSeen| it.ready && it.namespace == namespace;
        let wanted = self.routes.revisions.get(namespace);
        self.routers.iter().filter(here).all(|it| it.revision.is_some() && it.revision.as_ref() == wanted)
    }
}

/// The routes, made anew whenever something changes.
pub struct Board {
    latest: Arc<RwLock<Option<Arc<Picture>>>>,
    told: watch::Receiver<u64>,
    /// Everything that goes on behind it ends with it.
    _watches: Watches,
}

impl Debug for Board {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Board").finish_non_exhaustive()
    }
}

impl Board {
    /// Starts to watch.
    pub fn start(ctx: &Context) -> Self {
        let (mut watches, changes) = Watches::new(stumbled);
        let seen = Seen::watch(ctx, &mut watches);
        let latest = Arc::<RwLock<Option<Arc<Picture>>>>::default();
        let (made, told) = watch::channel(0);
        let work = keep_up(seen, changes, Arc::clone(&latest), (made, Arc::clone(&ctx.meter)));
        watches.also(tokio::spawn(work).abort_handle());
        Self { latest, told, _watches: watches }
    }

    /// The routes as they should be now; none before everything was seen once.
    pub fn picture(&self) -> Option<Arc<Picture>> {
        self.latest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the newest picture, also when the board itself is elsewhere.
    pub fn reader(&self) -> impl Fn() -> Option<Arc<Picture>> + Send + use<> {
        let latest = Arc::clone(&self.latest);
        move || latest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Is told whenever there is another picture.
    pub fn told(&self) -> watch::Receiver<u64> {
        self.told.clone()
    }
}

/// Makes a picture of what was seen, again and again.
async fn keep_up(
    seen: Seen,
    mut changes: watch::Receiver<u64>,
    latest: Arc<RwLock<Option<Arc<Picture>>>>,
    (made, meter): (watch::Sender<u64>, Arc<dyn Meter>),
) {
    seen.ready().await;
    let mut propagation = Propagation::default();
    let mut before: Option<Arc<Picture>> = None;
    loop {
        changes.mark_unchanged();
        let picture = Arc::new(seen.picture(before.as_deref()));
        before = Some(Arc::clone(&picture));
        for took in propagation.note(Instant::now(), picture.in_force()) {
            meter.propagated(took);
        }
        *latest.write().unwrap_or_else(PoisonError::into_inner) = Some(picture);
        made.send_modify(|count| *count += 1);
        if changes.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

/// What was seen last of everything.
struct Seen {
    objects: Watched,
    leases: Store<Lease>,
    pods: Store<Pod>,
    mesh: HttpRoutes,
    domain: Option<String>,
    /// The namespace whose Services and routers these are; all otherwise.
    scope: Option<String>,
}

/// A watch that is refused never begins, and then there is no picture: somebody has to know.
fn stumbled(error: &watcher::Error) {
    let refused = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 403,
        _ => false,
    };
    if refused {
        tracing::warn!(%error, "the routes cannot be watched; see `--namespace` in docs/deploying.md");
    } else {
        tracing::debug!(%error, "a watch of the routes stumbled");
    }
}

impl Seen {
    fn watch(ctx: &Context, watches: &mut Watches) -> Self {
        let routers = || watcher::Config::default().labels(names::ROUTER_LABEL);
        let (mesh, namespace) = (HttpRoutes::default(), ctx.settings.namespace.as_deref());
        watches.also(tokio::spawn(mesh.follow(ctx, watches.teller())).abort_handle());
        Self {
            mesh,
            domain: ctx.settings.preview_domain.clone(),
            scope: ctx.settings.namespace.clone(),
            // As a router does it: groups may have members in other namespaces, and older objects there may have a key.
            objects: Watched::new(watches, ctx.kube.client(), None, namespace),
            leases: watches.keep(drive::api(ctx), routers()),
            pods: watches.keep(drive::api(ctx), routers()),
        }
    }

    /// Waits until everything was seen once. A watch that never begins leaves us without a picture.
    async fn ready(&self) {
        // One that ends before it is ready ends with us.
        let _all_or_over =
            tokio::join!(self.objects.ready(), self.leases.wait_until_ready(), self.pods.wait_until_ready());
    }

    /// What is there now; `before` is the last picture.
    fn picture(&self, before: Option<&Picture>) -> Picture {
        let (sandboxes, groups) = (self.objects.sandboxes.state(), self.objects.groups.state());
        let view = View { domain: self.domain.as_deref(), scope: self.scope.as_deref() };
        let mut made = self.objects.routes(view);
        made.history =
            Arc::new(before.map_or_else(History::default, |it| it.routes.history.with(&it.routes)));
        let going = readable(&sandboxes).into_iter().filter(|it| it.metadata.deletion_timestamp.is_some());
        let forks = |it: &Sandbox| Some((it.uid()?, it.status.clone().unwrap_or_default().forks));
        let ready = readable(&sandboxes).into_iter().filter(|it| is_done(it));
        let generation = |it: &&RouteGroup| (Owner::group(it), it.metadata.generation.unwrap_or_default());
        let routers = self.routers();
        Picture {
            mesh: Plan::new(&made, &readable(&groups), &routers, self.mesh.seen(), before.map(|it| &it.mesh)),
            ready: ready.map(|it| drive::path(&it.metadata)).collect(),
            generations: readable(&groups).iter().map(generation).collect(),
            going: going.filter_map(ResourceExt::uid).collect(),
            groups: by_key(&readable(&groups)),
            made_from: readable(&sandboxes).into_iter().filter_map(forks).collect(),
            routers,
            routes: made,
        }
    }

    /// Each pod of a router, with what its Lease says.
    fn routers(&self) -> Vec<RouterSeen> {
        let leases = self.leases.state();
        let one = |pod: &Arc<Pod>| {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let is_its =
                |it: &&Arc<Lease>| it.name_any() == name && it.namespace().as_ref() == Some(&namespace);
            let lease = leases.iter().find(is_its);
            let revision = lease.and_then(|it| it.annotations().get(names::REVISION_ANNOTATION).cloned());
            RouterSeen { ready: is_ready(pod), revision, namespace, name }
        };
        self.pods.state().iter().map(one).collect()
    }
}

/// The groups by their keys, with as much of them as tells who is older.
fn by_key(groups: &[&RouteGroup]) -> BTreeMap<String, Vec<ObjectMeta>> {
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
        let key = key_of(group.spec.routing_key.as_deref(), meta.uid.as_deref());
        all.entry(key).or_default().push(age);
    }
    all
}

fn is_done(sandbox: &Sandbox) -> bool {
    sandbox.status.as_ref().is_some_and(|it| it.phase == Some(Phase::Ready))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}
