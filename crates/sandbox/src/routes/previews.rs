//! Hosts for people, and rules for consumers of queues.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use sandbox_router::table::{Destination, Key, Mapping, Preview, Rule, ServicePort, Workload};

use super::{Own, Work, keys::Claim, overrides::Overrides};
use crate::{
    api::{Endpoint, Sandbox},
    target::{parse, preview_label},
};

impl Work<'_> {
    /// Brings the endpoints of a sandbox or a group into the table.
    pub(super) fn previews(&mut self, claim: &Claim<'_>, key: &Key, own: &mut Own, lines: &mut Vec<String>) {
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
            let line = format!("{at} {} for {label}", key.as_str());
            lines.push(line.clone());
            let host = self.domain.map(|domain| format!("{label}.{domain}"));
            if let Some(host) = &host {
                own.hosts.insert(endpoint.name.clone(), host.clone());
            }
            if self.index.is_in_scope(&target.namespace) {
                self.line(&target.namespace, line);
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
            let mut by_workload: BTreeMap<&str, BTreeMap<u16, Vec<Destination>>> = BTreeMap::new();
            for one in overrides.of(sandbox) {
                let Some((port, host)) = &one.rule else { continue };
                if own.conflicts.iter().any(|it| it.baseline == one.baseline) {
                    continue;
                }
                let destinations = by_workload.entry(&one.baseline).or_default().entry(*port).or_default();
                destinations.push(Destination { host: host.clone(), port: one.at.port() });
            }
            for (baseline, ports) in by_workload {
                let Some((namespace, name)) = baseline.split_once('/') else { continue };
                if !self.index.is_in_scope(namespace) {
                    continue;
                }
                let workload = Workload {
                    kind: "Deployment".to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                let mappings = ports
                    .into_iter()
                    .map(|(workload_port, destinations)| Mapping { workload_port, destinations });
                let rule = Rule {
                    routing_key: key.clone(),
                    sandbox: sandbox.name_any(),
                    mappings: mappings.collect(),
                };
                self.builder.rule(workload, rule);
            }
        }
    }
}

fn endpoints<'a>(claim: &Claim<'a>) -> &'a [Endpoint] {
    match (claim.sandbox, claim.group) {
        (Some(sandbox), _) => &sandbox.spec.endpoints,
        (None, Some(group)) => &group.spec.endpoints,
        (None, None) => &[],
    }
}
