//! From objects to the route table.
//!
//! Contract: a pure function of the objects. The order in which they are given makes no difference, and the same objects
//! give the same revisions everywhere: the controllers compute what the routers should have, each router computes it for
//! itself, and both compare revisions. Addresses are not part of a revision, only whether there are any: a pod that is
//! replaced by another changes no route. A router that has a revision may for a moment still know the addresses of before.

mod history;
mod index;
mod keys;
mod matching;
mod overrides;
mod previews;
mod programmed;
mod reach;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use sandbox_router::table::{
    AppProtocol, Before, Builder, Key, Local, Route, Rule, ServicePort, Table, Target, Unavailable,
};

use self::{
    index::Index,
    keys::{Claim, claims},
    overrides::{Made, Override, Overrides},
};
use crate::{
    api::{Conflict, LocalWorkload, RouteGroup, Sandbox, UnreadyPolicy},
    digest::of_lines,
};

pub use self::{
    history::History,
    keys::{Kind, Owner, key_of},
    matching::members,
    programmed::{Programmed, RouterSeen, programmed},
    reach::{Astray, Why},
};

/// What a table is made from.
#[derive(Debug, Clone, Default)]
pub struct Objects<'a> {
    /// All sandboxes.
    pub sandboxes: Vec<&'a Sandbox>,
    /// All route groups.
    pub groups: Vec<&'a RouteGroup>,
    /// All local workloads.
    pub locals: Vec<&'a LocalWorkload>,
    /// The Services: of the namespace for a router, all for a controller.
    pub services: Vec<&'a Service>,
    /// Their endpoints.
    pub slices: Vec<&'a EndpointSlice>,
    /// All namespaces; needed by groups that choose sandboxes by the labels of their namespaces.
    pub namespaces: Vec<&'a Namespace>,
    /// The domain of preview hosts, if there is one.
    pub domain: Option<&'a str>,
    /// Only routes of this namespace's Services; all if left out. A router serves the namespace that it lives in.
    pub scope: Option<&'a str>,
}

/// A table, and what its makers say of it.
#[derive(Debug)]
pub struct Routes {
    /// For the router.
    pub table: Table,
    /// What is the same for the same routes, by namespace. A router publishes that of its own in its Lease.
    pub revisions: BTreeMap<String, String>,
    /// What became of each sandbox and each group.
    pub owners: BTreeMap<Owner, Own>,
    /// The tables of before, which routers may still have.
    pub history: Arc<History>,
}

/// What became of a sandbox or a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// Its key.
    pub key: String,
    /// The older object that has the key.
    pub older: Option<Owner>,
    /// The sandboxes that belong to a group, as `namespace/name`.
    pub members: Vec<String>,
    /// The baselines that several of them override.
    pub conflicts: Vec<Conflict>,
    /// How many ports of Services are overridden under the key.
    pub routes: usize,
    /// Routes whose fork has no pod that is ready, as `namespace/service:port`.
    pub unready: Vec<String>,
    /// The ports of Services in scope that are overridden, in order, each with the Service that answers under the key; none where nobody does. For
    /// those who send requests to Services and not to pods.
    pub backends: Vec<(ServicePort, Option<String>)>,
    /// Services whose requests do not come to the router, unless callers go there by themselves.
    pub astray: Vec<Astray>,
    /// Ports that nobody looks into, so that no key is found there.
    pub opaque: BTreeSet<ServicePort>,
    /// Endpoints whose Service does not exist.
    pub missing_targets: Vec<String>,
    /// The hosts of its endpoints, by their names.
    pub hosts: BTreeMap<String, String>,
    /// A digest of its own routes.
    pub digest: String,
    /// The same for the routes of each namespace.
    pub parts: BTreeMap<String, u64>,
}

impl Own {
    /// The namespaces and names of the Services that are overridden, in order.
    pub fn services(&self) -> impl Iterator<Item = (&str, &str)> {
        let same = |(one, _): &(ServicePort, _), (other, _): &(ServicePort, _)| {
            (one.namespace(), one.name()) == (other.namespace(), other.name())
        };
        self.backends.chunk_by(same).map(|of_one| (of_one[0].0.namespace(), of_one[0].0.name()))
    }
}

/// Makes the table.
pub fn routes(objects: &Objects<'_>) -> Routes {
    // Those that live in another cluster have their likenesses and their routers there.
    let mut objects = objects.clone();
    objects.sandboxes.retain(|it| it.spec.cluster_ref.is_none());
    let objects = &objects;
    let index = Index::new(objects);
    let overrides = Overrides::new(objects, &index);
    let mut work = Work {
        builder: Table::builder(),
        index: &index,
        lines: BTreeMap::new(),
        domain: objects.domain,
        labels: BTreeSet::new(),
        rules: HashMap::new(),
        explicit: reach::explicit(objects),
    };
    work.listen();
    let mut owners = BTreeMap::new();
    for claim in claims(objects) {
        let own = work.own(&claim, objects, &overrides);
        owners.insert(claim.owner, own);
    }
    work.told();
    let revisions = work.revisions(objects.scope);
    Routes { table: work.builder.build(), revisions, owners, history: Arc::default() }
}

/// A table in the making.
struct Work<'a> {
    builder: Builder,
    index: &'a Index<'a>,
    /// What revisions are made of, by namespace.
    lines: BTreeMap<String, Vec<String>>,
    domain: Option<&'a str>,
    /// The first parts of the hosts of endpoints.
    labels: BTreeSet<String>,
    /// For consumers of the queues of each workload.
    rules: ByName<'a, Vec<Rule>>,
    /// Sandboxes whose callers go to the router by themselves.
    explicit: HashSet<(&'a str, &'a str)>,
}

/// What a digest says of one route.
struct Line {
    at: ServicePort,
    text: String,
}

impl<'a> Work<'a> {
    /// Every Service whose traffic comes to the router has its routes, whether anybody overrides it or not.
    fn listen(&mut self) {
        for (service, port, listen) in self.index.listeners.iter().copied() {
            let at = ServicePort::new(service.namespace, service.name, port);
            let made = self.index.route(&at).listen(listen);
            self.line(service.namespace, format!("{at} at {listen} {:?}", made.protocol()));
            self.builder.add(made);
        }
    }

    fn line(&mut self, namespace: &str, line: String) {
        match self.lines.get_mut(namespace) {
            Some(lines) => lines.push(line),
            None => drop(self.lines.insert(namespace.to_owned(), vec![line])),
        }
    }

    fn revisions(&mut self, scope: Option<&str>) -> BTreeMap<String, String> {
        let mut namespaces = self.index.namespaces.clone();
        namespaces.extend(scope);
        let mut one = |namespace: &str| {
            let mut lines = self.lines.remove(namespace).unwrap_or_default();
            lines.sort_unstable();
            (namespace.to_owned(), of_lines(lines.iter().map(String::as_str)))
        };
        namespaces.into_iter().map(&mut one).collect()
    }

    /// Brings the routes of one sandbox or group into the table.
    fn own(&mut self, claim: &Claim<'a>, objects: &Objects<'a>, overrides: &Overrides<'a>) -> Own {
        let members = match claim.group {
            Some(group) => members(group, &objects.sandboxes, &objects.namespaces),
            None => Vec::new(),
        };
        let mut own = Own {
            key: claim.key.clone(),
            older: claim.older.clone(),
            members: members.iter().map(|it| keys::full_name(*it)).collect(),
            ..Own::default()
        };
        let sandboxes = claim.sandbox.map_or(members, |it| vec![it]);
        let wanted = self.resolve(&sandboxes, claim, overrides, &mut own);
        let Some(key) = Key::parse(&claim.key).filter(|_| claim.older.is_none() && !claim.deleting) else {
            return own;
        };
        let mut lines = Vec::with_capacity(wanted.len());
        for (at, target, service) in wanted {
            // Who sees the Services of one namespace alone has nothing to say of others.
            if self.index.is_in_scope(at.namespace()) {
                own.backends.push((at.clone(), service.map(str::to_owned)));
            }
            self.put(at, (&key, target), claim, (&mut own, &mut lines));
        }
        self.rules(&sandboxes, &key, overrides, &own);
        self.previews(claim, &key, &mut own, &mut lines);
        self.digest(&key, &mut own, lines);
        own
    }

    /// A revision has one line for all routes that a key has in a namespace, with their digest: the routes themselves are
    /// several times as many, and would have to be kept and sorted.
    fn digest(&mut self, key: &Key, own: &mut Own, mut lines: Vec<Line>) {
        lines.sort_unstable_by(|one, other| one.text.cmp(&other.text));
        own.digest = of_lines(lines.iter().map(|it| it.text.as_str()));
        for of_one in lines.chunk_by(|one, other| one.at.namespace() == other.at.namespace()) {
            let namespace = of_one[0].at.namespace();
            if !self.index.is_in_scope(namespace) {
                continue;
            }
            let is_all = of_one.len() == lines.len();
            let some = || of_lines(of_one.iter().map(|it| it.text.as_str()));
            let digest = if is_all { own.digest.clone() } else { some() };
            own.parts.insert(namespace.to_owned(), u64::from_str_radix(&digest, 16).unwrap_or_default());
            self.line(namespace, [key.as_str(), &digest].join(" "));
        }
    }

    /// Who answers under a key, for each port of a Service in order. Where several sandboxes would, nobody does.
    fn resolve<'o>(
        &self,
        sandboxes: &[&'a Sandbox],
        claim: &Claim<'a>,
        overrides: &'o Overrides<'a>,
        own: &mut Own,
    ) -> Vec<(&'o ServicePort, Target, Option<&'a str>)> {
        let of = |sandbox: &&'a Sandbox| {
            let sandbox = *sandbox;
            overrides.of(sandbox).iter().map(move |it| (sandbox, it))
        };
        let mut found: Vec<(&Sandbox, &'o Override<'a>)> = sandboxes.iter().flat_map(of).collect();
        found.sort_by_key(|(_, it)| &it.at);
        let mut conflicts = BTreeMap::new();
        let mut wanted = Vec::with_capacity(found.len());
        for candidates in found.chunk_by(|(_, one), (_, other)| one.at == other.at) {
            let at = &candidates[0].1.at;
            // What is virtual is in nobody's way: it answers where nobody else does.
            let real = || candidates.iter().filter(|(_, it)| !it.is_virtual());
            if real().nth(1).is_none() {
                let calm = candidates.iter().find(|(_, it)| it.is_virtual());
                let target =
                    |(_, it): &(_, &'o Override<'a>)| Some((at, self.target(it, claim, own)?, it.service));
                wanted.extend(real().chain(calm).find_map(target));
                continue;
            }
            wanted.push((at, conflict(at, real(), &mut conflicts), None));
        }
        let told = |(baseline, sandboxes): (String, BTreeSet<String>)| Conflict {
            baseline,
            sandboxes: sandboxes.into_iter().collect(),
        };
        own.conflicts = conflicts.into_iter().map(told).collect();
        wanted
    }

    /// Who answers, by what the group wants while a fork is not ready. `None` leaves it to the baseline.
    fn target(&self, one: &Override<'_>, claim: &Claim<'_>, own: &mut Own) -> Option<Target> {
        let policy = claim.group.map_or(UnreadyPolicy::Fail, |it| it.spec.routing.unready_policy);
        match &one.made {
            // The same goes for the fork that a local process stands before.
            Made::Ready(Target::Local(local))
                if policy == UnreadyPolicy::Baseline
                    && matches!(local.stands_before(), Before::Unavailable(_)) =>
            {
                Some(Target::Local(Arc::new(Local::clone(local).before(Before::Baseline))))
            }
            Made::Ready(target) => Some(target.clone()),
            Made::Unready(why) => {
                if self.index.is_in_scope(one.at.namespace()) {
                    own.unready.push(one.at.to_string());
                }
                (policy == UnreadyPolicy::Fail).then(|| Target::Unavailable(why.clone()))
            }
        }
    }

    fn put(
        &mut self,
        at: &ServicePort,
        (key, target): (&Key, Target),
        claim: &Claim<'_>,
        (own, lines): (&mut Own, &mut Vec<Line>),
    ) {
        own.routes += 1;
        let protocol = self.index.protocol(at);
        self.reach(at, protocol, claim, own);
        let mut text = line(at, key, &target);
        let _ = write!(text, " {protocol:?}");
        if let Some(group) = claim.group {
            text.push_str(&keys::places_line(&group.spec.routing));
        }
        lines.push(Line { at: at.clone(), text });
        if !self.index.is_in_scope(at.namespace()) {
            return;
        }
        let index = self.index;
        let route: &mut Route = self.builder.entry(at.clone(), |at| index.route(&at));
        if let Some(group) = claim.group {
            keys::places(route, &group.spec.routing);
        }
        route.set(key.clone(), target);
    }

    /// Notes whether requests to a Service come to the router, and whether they are looked into.
    fn reach(&self, at: &ServicePort, protocol: AppProtocol, claim: &Claim<'_>, own: &mut Own) {
        if protocol == AppProtocol::Tcp {
            own.opaque.insert(at.clone());
        }
        let (namespace, name) = (at.namespace(), at.name());
        let is_noted = own.astray.last().is_some_and(|it| (&*it.namespace, &*it.name) == (namespace, name));
        if is_noted || reach::comes_anyway(claim, at, &self.explicit) {
            return;
        }
        if let Some(why) = self.index.astray(namespace, name) {
            own.astray.push(Astray { namespace: namespace.to_owned(), name: name.to_owned(), why });
        }
    }
}

/// Nobody answers where several sandboxes would. Their names are noted for each baseline.
fn conflict<'c, 'o: 'c, 'a: 'o>(
    at: &ServicePort,
    several: impl Iterator<Item = &'c (&'a Sandbox, &'o Override<'a>)>,
    conflicts: &mut BTreeMap<String, BTreeSet<String>>,
) -> Target {
    let mut names = Vec::new();
    for (sandbox, one) in several {
        let name = keys::full_name(*sandbox);
        let baseline = format!("{}/{}", at.namespace(), one.baseline);
        conflicts.entry(baseline).or_default().insert(name.clone());
        names.push(name);
    }
    let message = format!("{} are all in this group and override {at}", names.join(" and "));
    Target::Unavailable(Unavailable::conflict(message).into())
}

/// What a digest says of a target: who, but not where.
fn line(at: &ServicePort, key: &Key, target: &Target) -> String {
    let name = target.name().to_str().unwrap_or_default();
    let mut line = String::with_capacity(80);
    // Writing to a text does not fail.
    let _ = match target {
        Target::Backend(_) | Target::Virtual(_) => write!(line, "{at} {} {name}", key.as_str()),
        Target::Unavailable(why) => {
            let error = why.error().to_str().unwrap_or_default();
            write!(line, "{at} {} {name} {error}", key.as_str())
        }
        Target::Local(local) => {
            let gateway = local.gateway().map_or("", |it| it.name.as_str());
            let (port, when, protocol) = (local.port(), local.counts_when(), local.protocol());
            let before = match local.stands_before() {
                Before::Baseline => "baseline",
                Before::Fork(fork) => fork.name().to_str().unwrap_or_default(),
                Before::Unavailable(why) => why.error().to_str().unwrap_or_default(),
            };
            let (key, otherwise) = (key.as_str(), local.fallback());
            write!(
                line,
                "{at} {key} {name}:{port} {protocol:?} {when:?} before {before} else {otherwise:?} at {gateway}"
            )
        }
    };
    line
}

/// By namespace and name.
type ByName<'a, T> = HashMap<(&'a str, &'a str), T>;
