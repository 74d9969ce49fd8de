//! Services of a baseline, and the Services of its forks.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString};
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    api::{BaselineService, ForkServiceStatus, Sandbox, ServicePortStatus, Unroutable, names},
    digest::joined_name,
    labels::{Labels, has_all},
    template::{self, Template},
};

/// Longest name of a fork and of its Services: pods and their labels get longer names still.
pub const LONGEST_NAME: usize = 52;

/// What a Service was before its traffic went to the router.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Original {
    /// Its selector.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<ServicePort>,
}

/// What a Service is for its users: what it was before the router took over, if it did.
pub fn original(service: &Service) -> Original {
    let kept = service.annotations().get(names::ORIGINAL_ANNOTATION);
    if let Some(kept) = kept.and_then(|text| serde_json::from_str(text).ok()) {
        return kept;
    }
    let spec = service.spec.clone().unwrap_or_default();
    Original { selector: spec.selector.unwrap_or_default(), ports: spec.ports.unwrap_or_default() }
}

/// Whether the traffic of a Service goes to the router.
pub fn is_taken_over(service: &Service) -> bool {
    service.annotations().contains_key(names::ORIGINAL_ANNOTATION)
}

/// When the traffic of a Service goes to the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Always: connections that callers keep open are routed, too.
    Enabled,
    /// As long as a sandbox stands in for what is behind it.
    WhileActive,
}

/// What the annotation of a Service or a namespace says.
pub fn routing(annotations: &BTreeMap<String, String>) -> Option<Routing> {
    match annotations.get(names::ROUTING_ANNOTATION)?.as_str() {
        "enabled" => Some(Routing::Enabled),
        "while-active" => Some(Routing::WhileActive),
        _ => None,
    }
}

/// Why the traffic of a Service cannot go to a router.
pub fn why_not(service: &Service) -> Option<&'static str> {
    let Some(spec) = &service.spec else { return Some("it has no spec") };
    if let Some(why) = why_unroutable(service) {
        return Some(why);
    }
    if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
        return Some("it has no selector: somebody else says where its traffic goes");
    }
    if !is_taken_over(service) && spec.selector.iter().flatten().any(|(it, _)| it == names::ROUTER_LABEL) {
        return Some("it is the routers' own");
    }
    if spec.publish_not_ready_addresses == Some(true) {
        return Some(
            "it publishes addresses that are not ready, and a router that starts must not be among them",
        );
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let other = ports.iter().any(|it| it.protocol.as_deref().is_some_and(|it| it != "TCP"));
    if ports.is_empty() || other { Some("a router takes TCP alone") } else { None }
}

/// The Services of its namespace that a sandbox stands in for what is behind. One that goes does so for none.
pub fn uses(sandbox: &Sandbox) -> impl Iterator<Item = &str> {
    let status = sandbox.status.iter().filter(|_| sandbox.metadata.deletion_timestamp.is_none());
    let forks = status.clone().flat_map(|it| &it.forks).flat_map(|it| &it.services);
    let virtuals = status.flat_map(|it| &it.virtuals).flat_map(|it| &it.services);
    forks.map(|it| it.from.as_str()).chain(virtuals.map(|it| it.service.as_str()))
}

/// Whether a Service is one of ours: of a fork, or the keeper of a selector.
pub fn is_ours(service: &Service) -> bool {
    let labels = service.labels();
    labels.contains_key(names::FORK_LABEL) || labels.contains_key(names::BASE_OF_LABEL)
}

/// The Services of a fork, and what cannot be routed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForkServices {
    /// To be applied.
    pub services: Vec<Service>,
    /// For the status.
    pub statuses: Vec<ForkServiceStatus>,
    /// Services of the baseline that no router can stand before.
    pub unroutable: Vec<Unroutable>,
}

/// One Service for each Service that selects the baseline's pods.
///
/// `baseline` and `fork` are the workloads as JSON, before and after; `services` are those of the namespace.
pub fn fork_services(
    sandbox: &Sandbox,
    baseline: &Value,
    fork: &Value,
    services: &[Service],
) -> ForkServices {
    let (before, after) = (Template::of(baseline), Template::of(fork));
    let id = template::name(fork).to_owned();
    let mut selecting: Vec<&Service> = services
        .iter()
        .filter(|it| !is_ours(it) && has_all(&original(it).selector, &before.labels()))
        .collect();
    selecting.sort_by_key(|it| it.name_any());
    let mut found = ForkServices::default();
    for service in selecting {
        if let Some(reason) = why_unroutable(service) {
            let unroutable = Unroutable { service: service.name_any(), reason: reason.to_owned() };
            found.unroutable.push(unroutable);
            continue;
        }
        let (made, status) = one(sandbox, &id, service, after);
        if status.ports.is_empty() {
            // A Service without ports is refused by the API server; the status tells which are missing.
            let reason = "no container of the fork has one of its ports".to_owned();
            found.unroutable.push(Unroutable { service: service.name_any(), reason });
            continue;
        }
        found.services.push(made);
        found.statuses.push(status);
    }
    found
}

/// The Services of a workload that nobody forks, and which of their ports lead where.
pub fn baseline_services(baseline: &Value, services: &[Service]) -> Vec<BaselineService> {
    let template = Template::of(baseline);
    let labels = template.labels();
    let selecting = services.iter().filter(|it| {
        !is_ours(it) && why_unroutable(it).is_none() && has_all(&original(it).selector, &labels)
    });
    let one = |service: &Service| {
        let ports = original(service).ports.into_iter().filter_map(|port| {
            let target_port = target_port(&port, template)?;
            Some(ServicePortStatus { port: port.port, target_port })
        });
        BaselineService { service: service.name_any(), ports: ports.collect() }
    };
    let mut found: Vec<_> = selecting.map(one).collect();
    found.sort_by(|one, other| one.service.cmp(&other.service));
    found
}

/// The name of a fork's Service.
pub fn fork_service_name(namespace: &str, service: &str, sandbox: &str) -> String {
    joined_name(["Service", namespace, service], sandbox, LONGEST_NAME)
}

fn why_unroutable(service: &Service) -> Option<&'static str> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return Some("it is an ExternalName: its clients never ask the cluster for an address");
    }
    let is_headless = spec.cluster_ip.as_deref() == Some("None");
    is_headless.then_some("it is headless: its clients go to the pods themselves")
}

fn one(sandbox: &Sandbox, id: &str, service: &Service, fork: Template<'_>) -> (Service, ForkServiceStatus) {
    let namespace = sandbox.namespace().unwrap_or_default();
    let name = fork_service_name(&namespace, &service.name_any(), &sandbox.name_any());
    let (mut ports, mut statuses, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for port in original(service).ports {
        let Some(target) = target_port(&port, fork) else {
            missing.push(port.port);
            continue;
        };
        statuses.push(ServicePortStatus { port: port.port, target_port: target });
        ports.push(ServicePort { node_port: None, target_port: Some(IntOrString::Int(target)), ..port });
    }
    let status = ForkServiceStatus {
        from: service.name_any(),
        to: name.clone(),
        ports: statuses,
        missing_ports: missing,
    };
    (built(sandbox, (name, id), service, ports), status)
}

fn built(sandbox: &Sandbox, (name, id): (String, &str), from: &Service, ports: Vec<ServicePort>) -> Service {
    let labels = BTreeMap::from([
        (names::FORK_LABEL.to_owned(), id.to_owned()),
        (names::SANDBOX_LABEL.to_owned(), sandbox.name_any()),
        (names::SERVICE_LABEL.to_owned(), template::label_value(&from.name_any())),
    ]);
    let spec = ServiceSpec {
        selector: Some(BTreeMap::from([(names::FORK_LABEL.to_owned(), id.to_owned())])),
        ports: Some(ports),
        type_: Some("ClusterIP".to_owned()),
        ..ServiceSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: sandbox.namespace(),
        labels: Some(labels),
        owner_references: template::owner(sandbox).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    Service { metadata, spec: Some(spec), status: None }
}

/// The port of a container behind a port of a Service. A number is taken at its word: containers need not declare ports.
fn target_port(port: &ServicePort, pod: Template<'_>) -> Option<i32> {
    match port.target_port.as_ref() {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            name.parse().ok().or_else(|| pod.named_port(name, protocol))
        }
    }
}

/// The Services and disruption budgets that would take the fork's pods for the baseline's because of labels that were kept.
pub fn misled(fork_labels: &Labels, own: &Labels, around: &crate::around::Around<'_>) -> Vec<String> {
    let services = around.services.iter().filter(|it| !is_ours(it));
    let services = services.filter(|it| has_all(&original(it).selector, fork_labels));
    let services = services.map(|it| format!("Service {}", it.name_any()));
    let budgets = around.budgets.iter().filter(|it| {
        let selector = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        // One that selects every pod would also select a fork that keeps nothing.
        selector.is_some_and(|it| crate::labels::selects(it, fork_labels) && !crate::labels::selects(it, own))
    });
    let budgets = budgets.map(|it| format!("PodDisruptionBudget {}", it.name_any()));
    services.chain(budgets).collect()
}

#[cfg(test)]
mod tests;
