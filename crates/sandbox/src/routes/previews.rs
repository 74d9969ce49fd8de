//! Hosts for people, and rules for consumers of queues.

use kube::ResourceExt as _;
use sandbox_router::table::{Destination, Key, Mapping, Preview, Rule, ServicePort, Workload};

use super::{
    Line, Own, Work,
    keys::Claim,
    overrides::{Override, Overrides},
};
use crate::{
    api::{Endpoint, Sandbox},
    target::{parse, preview_label},
};

impl Work<'_> {
    /// Brings the endpoints of a sandbox or a group into the table.
    pub(super) fn previews(&mut self, claim: &Claim<'_>, key: &Key, own: &mut Own, lines: &mut Vec<Line>) {
        for endpoint in endpoints(claim) {
            let Some(target) = parse(&endpoint.target) else { continue };
            if self.index.service(&target.namespace, &target.service).is_none() {
                // A router knows the Services of its own namespace alone, and so cannot miss others.
                if self.index.is_in_scope(&target.namespace) {
                    own.missing_targets.push(endpoint.name.clone());
                }
                continue;
            }
            let label = preview_label(&endpoint.name, &claim.owner.name, &claim.owner.namespace);
            // Names may contain what separates them; the older object keeps its host.
            if !self.labels.insert(label.clone()) {
                continue;
            }
            let at = ServicePort::new(&target.namespace, &target.service, target.port);
            // Without the domain: that is a matter between a router and its visitors.
            lines.push(Line { at: at.clone(), text: format!("{at} {} for {label}", key.as_str()) });
            let host = self.domain.map(|domain| format!("{label}.{domain}"));
            if let Some(host) = &host {
                own.hosts.insert(endpoint.name.clone(), host.clone());
            }
            if self.index.is_in_scope(&target.namespace) {
                let index = self.index;
                self.builder.entry(at.clone(), |at| index.route(&at));
                if let Some(host) = host {
                    self.builder.preview(&host, Preview::new(at, key.clone()));
                }
            }
        }
    }
}

impl<'a> Work<'a> {
    /// Tells consumers of queues which messages are not theirs. A baseline that is in conflict keeps them all.
    pub(super) fn rules(
        &mut self,
        sandboxes: &[&'a Sandbox],
        key: &Key,
        overrides: &Overrides<'a>,
        own: &Own,
    ) {
        for sandbox in sandboxes {
            let namespace = sandbox.metadata.namespace.as_deref().unwrap_or_default();
            if !self.index.is_in_scope(namespace) {
                continue;
            }
            let has_conflict = |baseline: &str| {
                own.conflicts.iter().any(|it| it.baseline.split_once('/') == Some((namespace, baseline)))
            };
            let ruled = overrides.of(sandbox).iter().filter_map(|it| Some((it, it.rule?)));
            let mut ruled: Vec<_> = ruled.filter(|(it, _)| !has_conflict(it.baseline)).collect();
            ruled.sort_by_key(|(it, (port, _))| (it.baseline, *port));
            for of_one in ruled.chunk_by(|(one, _), (other, _)| one.baseline == other.baseline) {
                let rule = Rule {
                    routing_key: key.clone(),
                    sandbox: sandbox.name_any(),
                    mappings: of_one.chunk_by(|(_, one), (_, other)| one.0 == other.0).map(mapping).collect(),
                };
                self.rules.entry((namespace, of_one[0].0.baseline)).or_default().push(rule);
            }
        }
    }

    /// The rules of all workloads, when all of them are told.
    pub(super) fn told(&mut self) {
        for ((namespace, name), rules) in std::mem::take(&mut self.rules) {
            let kind = "Deployment".to_owned();
            let workload = Workload { kind, namespace: namespace.to_owned(), name: name.to_owned() };
            self.builder.rules(workload, rules);
        }
    }
}

/// Who serves one port of a workload.
fn mapping(of_port: &[(&Override<'_>, (u16, &str))]) -> Mapping {
    let one = |(it, (_, service)): &(&Override<'_>, (u16, &str))| Destination {
        host: [service, it.at.namespace(), "svc"].join("."),
        port: it.at.port(),
    };
    Mapping { workload_port: of_port[0].1.0, destinations: of_port.iter().map(one).collect() }
}

pub(super) fn endpoints<'a>(claim: &Claim<'a>) -> &'a [Endpoint] {
    match (claim.sandbox, claim.group) {
        (Some(sandbox), _) => &sandbox.spec.endpoints,
        (None, Some(group)) => &group.spec.endpoints,
        (None, None) => &[],
    }
}
