//! From objects to the route table.
//!
//! Contract: a pure function of the objects. The order in which they are given makes no difference, and the same objects
//! give the same revisions everywhere: the controllers compute what the routers should have, each router computes it for
//! itself, and both compare revisions. Addresses are not part of a revision, only whether there are any: a pod that is
//! replaced by another changes no route.

mod index;
mod keys;
mod matching;
mod overrides;
mod previews;
mod programmed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use sandbox_router::table::{Builder, Key, Route, ServicePort, Table, Target, Unavailable};

use self::{
    index::Index,
    keys::{Claim, claims},
    overrides::{Made, Override, Overrides},
};
use crate::{
    api::{Conflict, LocalWorkload, RouteGroup, Sandbox, UnreadyPolicy},
    digest::sha256,
};

pub use self::{
    keys::{Kind, Owner, key_of},
    matching::members,
    programmed::{Programmed, RouterSeen, programmed},
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
    /// The Services that are overridden, by namespace.
    pub services: BTreeMap<String, BTreeSet<String>>,
    /// The Service that answers under the key for a port, by that port; none where nobody does. For those who send requests to
    /// Services and not to pods.
    pub backends: BTreeMap<ServicePort, Option<String>>,
    /// Services whose traffic should go to the router and does not yet, as `namespace/name`.
    pub waiting: Vec<String>,
    /// Endpoints whose Service does not exist.
    pub missing_targets: Vec<String>,
    /// The hosts of its endpoints, by their names.
    pub hosts: BTreeMap<String, String>,
    /// A digest of its own routes.
    pub digest: String,
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
    };
    work.listen();
    let mut owners = BTreeMap::new();
    for claim in claims(objects) {
        let own = work.own(&claim, objects, &overrides);
        owners.insert(claim.owner, own);
    }
    let revisions = work.revisions(objects.scope);
    Routes { table: work.builder.build(), revisions, owners }
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
}

impl<'a> Work<'a> {
    /// Every Service whose traffic comes to the router has its routes, whether anybody overrides it or not.
    fn listen(&mut self) {
        for (service, port, listen) in self.index.listeners() {
            let at = ServicePort::new(service.namespace, service.name, port);
            self.line(service.namespace, format!("{at} at {listen}"));
            let made = self.index.route(&at).listen(listen);
            self.builder.add(made);
        }
    }

    fn line(&mut self, namespace: &str, line: String) {
        self.lines.entry(namespace.to_owned()).or_default().push(line);
    }

    fn revisions(&mut self, scope: Option<&str>) -> BTreeMap<String, String> {
        let mut namespaces: BTreeSet<_> = self.index.namespaces().collect();
        namespaces.extend(scope);
        let one = |namespace: &&str| {
            let mut lines = self.lines.get(*namespace).cloned().unwrap_or_default();
            lines.sort_unstable();
            ((*namespace).to_owned(), sha256(&lines.join("\n"))[..16].to_owned())
        };
        namespaces.iter().map(one).collect()
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
        let mut lines = Vec::new();
        for (at, (target, service)) in wanted {
            own.backends.insert(at.clone(), service);
            self.put(&at, (&key, target), claim, (&mut own, &mut lines));
        }
        self.rules(&sandboxes, &key, overrides, &own);
        self.previews(claim, &key, &mut own, &mut lines);
        lines.sort_unstable();
        sha256(&lines.join("\n"))[..16].clone_into(&mut own.digest);
        own
    }

    /// Who answers under a key, for each port of a Service. Where several sandboxes would, nobody does.
    fn resolve<'o>(
        &self,
        sandboxes: &[&'a Sandbox],
        claim: &Claim<'a>,
        overrides: &'o Overrides<'a>,
        own: &mut Own,
    ) -> BTreeMap<ServicePort, (Target, Option<String>)> {
        let mut found: BTreeMap<&ServicePort, Vec<(&Sandbox, &'o Override)>> = BTreeMap::new();
        for sandbox in sandboxes {
            for one in overrides.of(sandbox) {
                found.entry(&one.at).or_default().push((*sandbox, one));
            }
        }
        let mut conflicts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        for (at, candidates) in found {
            let target = match candidates.as_slice() {
                [(_, only)] => self.target(only, claim, own).map(|it| (it, only.service.clone())),
                several => {
                    for (sandbox, one) in several {
                        let names = conflicts.entry(one.baseline.clone()).or_default();
                        names.insert(keys::full_name(*sandbox));
                    }
                    let names: Vec<_> = several.iter().map(|(it, _)| keys::full_name(*it)).collect();
                    let message = format!("{} are all in this group and override {at}", names.join(" and "));
                    Some((Target::Unavailable(Unavailable::conflict(message).into()), None))
                }
            };
            wanted.extend(target.map(|target| (at.clone(), target)));
        }
        let conflict = |(baseline, sandboxes): (String, BTreeSet<String>)| Conflict {
            baseline,
            sandboxes: sandboxes.into_iter().collect(),
        };
        own.conflicts = conflicts.into_iter().map(conflict).collect();
        wanted
    }

    /// Who answers, by what the group wants while a fork is not ready. `None` leaves it to the baseline.
    fn target(&self, one: &Override, claim: &Claim<'_>, own: &mut Own) -> Option<Target> {
        match &one.made {
            Made::Ready(target) => Some(target.clone()),
            Made::Unready(why) => {
                own.unready.push(one.at.to_string());
                let policy = claim.group.map_or(UnreadyPolicy::Fail, |it| it.spec.routing.unready_policy);
                (policy == UnreadyPolicy::Fail).then(|| Target::Unavailable(why.clone()))
            }
            Made::Baseline => Some(Target::Backend(self.index.baseline(&one.at))),
        }
    }

    fn put(
        &mut self,
        at: &ServicePort,
        (key, target): (&Key, Target),
        claim: &Claim<'_>,
        (own, lines): (&mut Own, &mut Vec<String>),
    ) {
        own.routes += 1;
        own.services.entry(at.namespace().to_owned()).or_default().insert(at.name().to_owned());
        if self.index.is_waiting(at.namespace(), at.name()) {
            own.waiting.push(format!("{}/{}", at.namespace(), at.name()));
            own.waiting.dedup();
        }
        let line = format!("{at} {} {}", key.as_str(), words(&target));
        lines.push(line.clone());
        if !self.index.is_in_scope(at.namespace()) {
            return;
        }
        self.line(at.namespace(), line);
        let index = self.index;
        let route: &mut Route = self.builder.entry(at.clone(), |at| index.route(&at));
        if let Some(group) = claim.group {
            keys::places(route, &group.spec.routing);
        }
        route.set(key.clone(), target);
    }
}

/// What a revision says of a target: who, but not where.
fn words(target: &Target) -> String {
    let name = target.name().to_str().unwrap_or_default();
    match target {
        Target::Unavailable(why) => format!("{name} {}", why.error().to_str().unwrap_or_default()),
        Target::Local(local) => {
            let gateway = local.gateway().map_or("", |it| it.name.as_str());
            format!("{name}:{} {:?} at {gateway}", local.port(), local.counts_when())
        }
        Target::Backend(_) => name.to_owned(),
    }
}

/// By namespace and name.
type ByName<'a, T> = HashMap<(&'a str, &'a str), T>;
