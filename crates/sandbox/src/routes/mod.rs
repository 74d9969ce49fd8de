//! Builds the route table from objects.
//!
//! Contract: a pure function of the objects, independent of their order. The same objects give the same revisions everywhere: the
//! controllers compute what the routers should have, each router computes its own table, and both compare revisions. A revision
//! covers whether a backend has addresses, but not which: replacing a pod changes no route. A router with a given revision may
//! briefly still use older addresses.

mod claims;
mod history;
mod matching;
mod overrides;
mod previews;
mod programming_status;
mod service_index;
#[cfg(test)]
mod tests;
mod unrouted;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use capt_kinds::{
    grant::Granted,
    sandbox::{Conflict, LocalWorkload, RouteGroup, Sandbox, UnreadyPolicy},
};
use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use sandbox_router::table::{
    AppProtocol, FallThrough, LocalTarget, Route, RouteTable, RouteTableBuilder, RoutingKey, RoutingRule,
    ServicePort, Target, UnavailableTarget,
};

use self::{
    claims::{Claim, collect_claims},
    overrides::{Override, OverrideState, Overrides},
    service_index::ServiceIndex,
};
use crate::digest::lines_digest;

pub use self::{
    claims::{OwnerKind, RouteOwner, effective_key},
    history::TableHistory,
    matching::group_members,
    programming_status::{ProgrammingStatus, RouterObservation, programming_status},
    unrouted::{UnroutedReason, UnroutedService},
};

/// The inputs of the route table.
#[derive(Debug, Clone, Default)]
pub struct RouteObjects<'a> {
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
    /// All namespaces: groups select them by label, and they grant membership of their Sandboxes.
    pub namespaces: Vec<&'a Namespace>,
    /// The domain of preview hosts, if there is one.
    pub domain: Option<&'a str>,
    /// Limits the table to the Services of this namespace; all if `None`. A router serves its own namespace.
    pub scope: Option<&'a str>,
}

/// The route table and its metadata.
#[derive(Debug)]
pub struct Routes {
    /// The table of the router.
    pub table: RouteTable,
    /// Revision of the routes by namespace. A router publishes that of its own namespace in its Lease.
    pub revisions: BTreeMap<String, String>,
    /// The routes of each Sandbox and each group.
    pub owners: BTreeMap<RouteOwner, OwnerRoutes>,
    /// Earlier tables, which routers may still use.
    pub history: Arc<TableHistory>,
}

/// The routes of a Sandbox or a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerRoutes {
    /// Its routing key.
    pub key: String,
    /// The older object that holds the key.
    pub key_holder: Option<RouteOwner>,
    /// The Sandboxes that match a group, as `namespace/name`.
    pub members: Vec<String>,
    /// The baselines that several of them override.
    pub conflicts: Vec<Conflict>,
    /// Number of Service ports overridden under the key.
    pub routes: usize,
    /// Routes whose fork has no ready pod, as `namespace/service:port`.
    pub unready_ports: Vec<String>,
    /// The overridden Service ports in scope, in order, each with the Service that answers under the key, if any. For data
    /// planes that route to Services instead of pods.
    pub backends: Vec<(ServicePort, Option<String>)>,
    /// Services whose traffic does not go through the router, unless callers address the router explicitly.
    pub unrouted: Vec<UnroutedService>,
    /// Ports that the router does not inspect, so that no key is found there.
    pub opaque_ports: BTreeSet<ServicePort>,
    /// Endpoints whose Service does not exist.
    pub missing_targets: Vec<String>,
    /// Preview hosts by endpoint name.
    pub hosts: BTreeMap<String, String>,
    /// Digest of its routes.
    pub digest: String,
    /// Digest of its routes by namespace.
    pub namespace_digests: BTreeMap<String, u64>,
}

impl OwnerRoutes {
    /// Namespaces and names of the overridden Services, in order.
    pub fn services(&self) -> impl Iterator<Item = (&str, &str)> {
        let same = |(one, _): &(ServicePort, _), (other, _): &(ServicePort, _)| {
            (one.namespace(), one.name()) == (other.namespace(), other.name())
        };
        self.backends.chunk_by(same).map(|of_one| (of_one[0].0.namespace(), of_one[0].0.name()))
    }
}

/// Builds the table.
pub fn build_routes(objects: &RouteObjects<'_>) -> Routes {
    // Remote Sandboxes have their mirrors and routers in the workload cluster.
    let mut objects = objects.clone();
    objects.sandboxes.retain(|it| it.spec.cluster_ref.is_none());
    let objects = &objects;
    let index = ServiceIndex::new(objects);
    let overrides = Overrides::new(objects, &index);
    let mut work = RouteBuilder {
        builder: RouteTable::builder(),
        index: &index,
        lines: BTreeMap::new(),
        domain: objects.domain,
        host_labels: BTreeSet::new(),
        rules: HashMap::new(),
        explicit: unrouted::explicitly_routed(objects),
    };
    work.add_listeners();
    let mut owners = BTreeMap::new();
    for claim in collect_claims(objects) {
        let own = work.add_owner(&claim, objects, &overrides);
        owners.insert(claim.owner, own);
    }
    work.emit_queue_rules();
    let revisions = work.revisions(objects.scope);
    Routes { table: work.builder.build(), revisions, owners, history: Arc::default() }
}

/// Builder of the table.
struct RouteBuilder<'a> {
    builder: RouteTableBuilder,
    index: &'a ServiceIndex<'a>,
    /// Lines that a revision is the digest of, by namespace.
    lines: BTreeMap<String, Vec<String>>,
    domain: Option<&'a str>,
    /// First labels of the preview hosts in use.
    host_labels: BTreeSet<String>,
    /// Rules for queue consumers, by workload.
    rules: ByName<'a, Vec<RoutingRule>>,
    /// Sandboxes whose callers address the router explicitly.
    explicit: HashSet<(&'a str, &'a str)>,
}

/// The line of one route in a digest.
struct DigestLine {
    at: ServicePort,
    text: String,
}

impl<'a> RouteBuilder<'a> {
    /// Adds a route for every listener: a Service that is taken over needs one even if nothing overrides it.
    fn add_listeners(&mut self) {
        for (service, port, listen) in self.index.listeners.iter().copied() {
            let at = ServicePort::new(service.namespace, service.name, port);
            let made = self.index.route(&at).with_listener(listen);
            self.add_line(service.namespace, format!("{at} at {listen} {:?}", made.protocol()));
            self.builder.add(made);
        }
    }

    fn add_line(&mut self, namespace: &str, line: String) {
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
            (namespace.to_owned(), lines_digest(lines.iter().map(String::as_str)))
        };
        namespaces.into_iter().map(&mut one).collect()
    }

    /// Adds the routes of one Sandbox or group.
    fn add_owner(
        &mut self,
        claim: &Claim<'a>,
        objects: &RouteObjects<'a>,
        overrides: &Overrides<'a>,
    ) -> OwnerRoutes {
        let members = match claim.group {
            Some(group) => group_members(group, &objects.sandboxes, &objects.namespaces),
            None => Vec::new(),
        };
        let mut own = OwnerRoutes {
            key: claim.key.clone(),
            key_holder: claim.key_holder.clone(),
            members: members.iter().map(|it| claims::full_name(**it)).collect(),
            ..OwnerRoutes::default()
        };
        let members = members.into_iter().map(Granted::into_inner).collect();
        let sandboxes = claim.sandbox.map_or(members, |it| vec![it]);
        let wanted = self.resolve(&sandboxes, claim, overrides, &mut own);
        let Some(key) =
            RoutingKey::parse(&claim.key).filter(|_| claim.key_holder.is_none() && !claim.deleting)
        else {
            return own;
        };
        let mut lines = Vec::with_capacity(wanted.len());
        for (at, target, service) in wanted {
            // A router sees only the Services of its own namespace.
            if self.index.is_in_scope(at.namespace()) {
                own.backends.push((at.clone(), service.map(str::to_owned)));
            }
            self.add_route(at, (&key, target), claim, (&mut own, &mut lines));
        }
        self.add_queue_rules(&sandboxes, &key, overrides, &own);
        self.add_previews(claim, &key, &mut own, &mut lines);
        self.digest_routes(&key, &mut own, lines);
        own
    }

    /// Adds one line per key and namespace to the revision, with the digest of its routes. Keeping and sorting a line per
    /// route would cost several times as much.
    fn digest_routes(&mut self, key: &RoutingKey, own: &mut OwnerRoutes, mut lines: Vec<DigestLine>) {
        lines.sort_unstable_by(|one, other| one.text.cmp(&other.text));
        own.digest = lines_digest(lines.iter().map(|it| it.text.as_str()));
        for of_one in lines.chunk_by(|one, other| one.at.namespace() == other.at.namespace()) {
            let namespace = of_one[0].at.namespace();
            if !self.index.is_in_scope(namespace) {
                continue;
            }
            let is_all = of_one.len() == lines.len();
            let some = || lines_digest(of_one.iter().map(|it| it.text.as_str()));
            let digest = if is_all { own.digest.clone() } else { some() };
            own.namespace_digests
                .insert(namespace.to_owned(), u64::from_str_radix(&digest, 16).unwrap_or_default());
            self.add_line(namespace, [key.as_str(), &digest].join(" "));
        }
    }

    /// Resolves the target under a key for each Service port, in order. A port that several Sandboxes override is unavailable.
    fn resolve<'o>(
        &self,
        sandboxes: &[&'a Sandbox],
        claim: &Claim<'a>,
        overrides: &'o Overrides<'a>,
        own: &mut OwnerRoutes,
    ) -> Vec<(&'o ServicePort, Target, Option<&'a str>)> {
        let of = |sandbox: &&'a Sandbox| {
            let sandbox = *sandbox;
            overrides.get(sandbox).iter().map(move |it| (sandbox, it))
        };
        let mut found: Vec<(&Sandbox, &'o Override<'a>)> = sandboxes.iter().flat_map(of).collect();
        found.sort_by_key(|(_, it)| &it.at);
        let mut conflicts = BTreeMap::new();
        let mut wanted = Vec::with_capacity(found.len());
        for candidates in found.chunk_by(|(_, one), (_, other)| one.at == other.at) {
            let at = &candidates[0].1.at;
            // A virtual workload never conflicts: it applies only if nothing else overrides the port.
            let real = || candidates.iter().filter(|(_, it)| !it.is_virtual());
            if real().nth(1).is_none() {
                let calm = candidates.iter().find(|(_, it)| it.is_virtual());
                let target = |(_, it): &(_, &'o Override<'a>)| {
                    Some((at, self.resolve_target(it, claim, own)?, it.service))
                };
                wanted.extend(real().chain(calm).find_map(target));
                continue;
            }
            wanted.push((at, record_conflict(at, real(), &mut conflicts), None));
        }
        let told = |(baseline, sandboxes): (String, BTreeSet<String>)| Conflict {
            baseline,
            sandboxes: sandboxes.into_iter().collect(),
        };
        own.conflicts = conflicts.into_iter().map(told).collect();
        wanted
    }

    /// The target of an override under the group's unready policy. `None` falls back to the baseline.
    fn resolve_target(&self, one: &Override<'_>, claim: &Claim<'_>, own: &mut OwnerRoutes) -> Option<Target> {
        let policy = claim.group.map_or(UnreadyPolicy::Fail, |it| it.spec.routing.unready_policy);
        match &one.state {
            // The policy also applies to an unready fork behind a local workload.
            OverrideState::Ready(Target::Local(local))
                if policy == UnreadyPolicy::Baseline
                    && matches!(local.fall_through(), FallThrough::Unavailable(_)) =>
            {
                Some(Target::Local(Arc::new(
                    LocalTarget::clone(local).with_fall_through(FallThrough::Baseline),
                )))
            }
            OverrideState::Ready(target) => Some(target.clone()),
            OverrideState::Unready(why) => {
                if self.index.is_in_scope(one.at.namespace()) {
                    own.unready_ports.push(one.at.to_string());
                }
                (policy == UnreadyPolicy::Fail).then(|| Target::Unavailable(why.clone()))
            }
        }
    }

    fn add_route(
        &mut self,
        at: &ServicePort,
        (key, target): (&RoutingKey, Target),
        claim: &Claim<'_>,
        (own, lines): (&mut OwnerRoutes, &mut Vec<DigestLine>),
    ) {
        own.routes += 1;
        let protocol = self.index.protocol(at);
        self.note_reachability(at, protocol, claim, own);
        let mut text = line(at, key, &target);
        let _ = write!(text, " {protocol:?}");
        if let Some(group) = claim.group {
            text.push_str(&claims::key_locations_line(&group.spec.routing));
        }
        lines.push(DigestLine { at: at.clone(), text });
        if !self.index.is_in_scope(at.namespace()) {
            return;
        }
        let index = self.index;
        let route: &mut Route = self.builder.entry(at.clone(), |at| index.route(&at));
        if let Some(group) = claim.group {
            claims::add_key_locations(route, &group.spec.routing);
        }
        route.set_override(key.clone(), target);
    }

    /// Records whether requests to a Service reach the router and are inspected.
    fn note_reachability(
        &self,
        at: &ServicePort,
        protocol: AppProtocol,
        claim: &Claim<'_>,
        own: &mut OwnerRoutes,
    ) {
        if protocol == AppProtocol::Tcp {
            own.opaque_ports.insert(at.clone());
        }
        let (namespace, name) = (at.namespace(), at.name());
        let is_noted = own.unrouted.last().is_some_and(|it| (&*it.namespace, &*it.name) == (namespace, name));
        if is_noted || unrouted::reaches_router_anyway(claim, at, &self.explicit) {
            return;
        }
        if let Some(why) = self.index.unrouted_reason(namespace, name) {
            own.unrouted.push(UnroutedService {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                reason: why,
            });
        }
    }
}

/// The unavailable target of a conflict. Records the conflicting Sandboxes by baseline.
fn record_conflict<'c, 'o: 'c, 'a: 'o>(
    at: &ServicePort,
    several: impl Iterator<Item = &'c (&'a Sandbox, &'o Override<'a>)>,
    conflicts: &mut BTreeMap<String, BTreeSet<String>>,
) -> Target {
    let mut names = Vec::new();
    for (sandbox, one) in several {
        let name = claims::full_name(*sandbox);
        let baseline = format!("{}/{}", at.namespace(), one.baseline);
        conflicts.entry(baseline).or_default().insert(name.clone());
        names.push(name);
    }
    let message = format!("{} are all in this group and override {at}", names.join(" and "));
    Target::Unavailable(UnavailableTarget::conflict(message).into())
}

/// The line of a target in a digest: its identity without addresses.
fn line(at: &ServicePort, key: &RoutingKey, target: &Target) -> String {
    let name = target.name().to_str().unwrap_or_default();
    let mut line = String::with_capacity(80);
    // Writing to a String does not fail.
    let _ = match target {
        Target::Backend(_) | Target::Virtual(_) => write!(line, "{at} {} {name}", key.as_str()),
        Target::Unavailable(why) => {
            let error = why.error().to_str().unwrap_or_default();
            write!(line, "{at} {} {name} {error}", key.as_str())
        }
        Target::Local(local) => {
            let gateway = local.gateway().map_or("", |it| it.name.as_str());
            let (port, when, protocol) = (local.port(), local.response_condition(), local.protocol());
            let before = match local.fall_through() {
                FallThrough::Baseline => "baseline",
                FallThrough::Fork(fork) => fork.name().to_str().unwrap_or_default(),
                FallThrough::Unavailable(why) => why.error().to_str().unwrap_or_default(),
            };
            let (key, otherwise) = (key.as_str(), local.disconnected_policy());
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
