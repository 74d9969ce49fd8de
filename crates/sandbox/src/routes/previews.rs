//! Preview hosts of endpoints, and rules for queue consumers.

use capt_kinds::sandbox::{Endpoint, Sandbox};
use kube::ResourceExt as _;
use sandbox_router::table::{
    BaselineWorkload, Destination, PortMapping, Preview, RoutingKey, RoutingRule, ServicePort,
};

use super::{
    DigestLine, OwnerRoutes, RouteBuilder,
    claims::Claim,
    overrides::{Override, Overrides},
};
use crate::target::{parse_target, preview_label};

impl RouteBuilder<'_> {
    /// Adds the preview hosts of a Sandbox or a group.
    pub(super) fn add_previews(
        &mut self,
        claim: &Claim<'_>,
        key: &RoutingKey,
        own: &mut OwnerRoutes,
        lines: &mut Vec<DigestLine>,
    ) {
        for endpoint in claim_endpoints(claim) {
            let Some(target) = parse_target(&endpoint.target) else { continue };
            if self.index.service(&target.namespace, &target.service).is_none() {
                // A router sees only the Services of its own namespace, so others are not missing.
                if self.index.is_in_scope(&target.namespace) {
                    own.missing_targets.push(endpoint.name.clone());
                }
                continue;
            }
            let label = preview_label(&endpoint.name, &claim.owner.name, &claim.owner.namespace);
            // Names may contain the separator `--`, so labels can collide; the older object keeps its host.
            if !self.host_labels.insert(label.clone()) {
                continue;
            }
            let at = ServicePort::new(&target.namespace, &target.service, target.port);
            // Without the domain, which is a setting of the router and unknown to the operator.
            lines.push(DigestLine { at: at.clone(), text: format!("{at} {} for {label}", key.as_str()) });
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

impl<'a> RouteBuilder<'a> {
    /// Adds rules that tell queue consumers which messages belong to forks. A baseline in conflict keeps all messages.
    pub(super) fn add_queue_rules(
        &mut self,
        sandboxes: &[&'a Sandbox],
        key: &RoutingKey,
        overrides: &Overrides<'a>,
        own: &OwnerRoutes,
    ) {
        for sandbox in sandboxes {
            let namespace = sandbox.metadata.namespace.as_deref().unwrap_or_default();
            if !self.index.is_in_scope(namespace) {
                continue;
            }
            let has_conflict = |baseline: &str| {
                own.conflicts.iter().any(|it| it.baseline.split_once('/') == Some((namespace, baseline)))
            };
            let ruled = overrides.get(sandbox).iter().filter_map(|it| Some((it, it.queue_rule?)));
            let mut ruled: Vec<_> = ruled.filter(|(it, _)| !has_conflict(it.baseline)).collect();
            ruled.sort_by_key(|(it, (port, _))| (it.baseline, *port));
            for of_one in ruled.chunk_by(|(one, _), (other, _)| one.baseline == other.baseline) {
                let rule = RoutingRule {
                    routing_key: key.clone(),
                    sandbox: sandbox.name_any(),
                    mappings: of_one
                        .chunk_by(|(_, one), (_, other)| one.0 == other.0)
                        .map(rule_mapping)
                        .collect(),
                };
                self.rules.entry((namespace, of_one[0].0.baseline)).or_default().push(rule);
            }
        }
    }

    /// Adds the collected rules of all workloads to the table.
    pub(super) fn emit_queue_rules(&mut self) {
        for ((namespace, name), rules) in std::mem::take(&mut self.rules) {
            let kind = "Deployment".to_owned();
            let workload = BaselineWorkload { kind, namespace: namespace.to_owned(), name: name.to_owned() };
            self.builder.rules(workload, rules);
        }
    }
}

/// The destinations of one container port of a workload.
fn rule_mapping(of_port: &[(&Override<'_>, (u16, &str))]) -> PortMapping {
    let one = |(it, (_, service)): &(&Override<'_>, (u16, &str))| Destination {
        host: [service, it.at.namespace(), "svc"].join("."),
        port: it.at.port(),
    };
    PortMapping { workload_port: of_port[0].1.0, destinations: of_port.iter().map(one).collect() }
}

pub(super) fn claim_endpoints<'a>(claim: &Claim<'a>) -> &'a [Endpoint] {
    match (claim.sandbox, claim.group) {
        (Some(sandbox), _) => &sandbox.spec.endpoints,
        (None, Some(group)) => &group.spec.endpoints,
        (None, None) => &[],
    }
}
