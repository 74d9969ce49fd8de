//! Services of a baseline and of its forks, and the takeover of Services by the router.

use std::collections::BTreeMap;

use capt_kinds::sandbox::{
    BaselineService, ForkServiceStatus, Sandbox, ServicePortStatus, Unroutable, names,
};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString};
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    digest::hashed_name,
    labels::{Labels, has_all},
    template::{self, PodTemplate},
};

/// Maximum name length of a fork and its Services: pod names and labels append to it.
pub const MAX_NAME_LENGTH: usize = 52;

/// The spec of a Service before the takeover.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginalService {
    /// Its selector.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<ServicePort>,
}

/// The spec of a Service before the takeover, or its current spec if it is not taken over.
pub fn original_service(service: &Service) -> OriginalService {
    let kept = service.annotations().get(names::ORIGINAL_ANNOTATION);
    if let Some(kept) = kept.and_then(|text| serde_json::from_str(text).ok()) {
        return kept;
    }
    let spec = service.spec.clone().unwrap_or_default();
    OriginalService { selector: spec.selector.unwrap_or_default(), ports: spec.ports.unwrap_or_default() }
}

/// Whether a Service is taken over by the router.
pub fn is_taken_over(service: &Service) -> bool {
    service.annotations().contains_key(names::ORIGINAL_ANNOTATION)
}

/// When a Service is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverMode {
    /// Always, so that long-lived connections are routed, too.
    Enabled,
    /// While a Sandbox or a local workload overrides it.
    WhileActive,
}

/// Parses the routing annotation of a Service or a namespace.
pub fn takeover_mode(annotations: &BTreeMap<String, String>) -> Option<TakeoverMode> {
    match annotations.get(names::ROUTING_ANNOTATION)?.as_str() {
        "enabled" => Some(TakeoverMode::Enabled),
        "while-active" => Some(TakeoverMode::WhileActive),
        _ => None,
    }
}

/// Why a Service cannot be taken over; `None` if it can.
pub fn takeover_blocker(service: &Service) -> Option<&'static str> {
    let Some(spec) = &service.spec else { return Some("it has no spec") };
    if let Some(why) = unroutable_reason(service) {
        return Some(why);
    }
    if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
        return Some("it has no selector: its endpoints are managed by another party");
    }
    if !is_taken_over(service) && spec.selector.iter().flatten().any(|(it, _)| it == names::ROUTER_LABEL) {
        return Some("it is the Service of the routers");
    }
    if spec.publish_not_ready_addresses == Some(true) {
        return Some(
            "it publishes addresses that are not ready, which would include routers that are starting",
        );
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let other = ports.iter().any(|it| it.protocol.as_deref().is_some_and(|it| it != "TCP"));
    if ports.is_empty() || other { Some("a router takes only TCP ports") } else { None }
}

/// The Services that a Sandbox overrides; none while it is being deleted.
pub fn overridden_services(sandbox: &Sandbox) -> impl Iterator<Item = &str> {
    let status = sandbox.status.iter().filter(|_| sandbox.metadata.deletion_timestamp.is_none());
    let forks = status.clone().flat_map(|it| &it.forks).flat_map(|it| &it.services);
    let virtuals = status.flat_map(|it| &it.virtuals).flat_map(|it| &it.services);
    forks.map(|it| it.from.as_str()).chain(virtuals.map(|it| it.service.as_str()))
}

/// Whether a Service is managed by us: of a fork, or a base Service.
pub fn is_managed(service: &Service) -> bool {
    let labels = service.labels();
    labels.contains_key(names::FORK_LABEL) || labels.contains_key(names::BASE_OF_LABEL)
}

/// The Services of a fork, and those that cannot be routed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForkServices {
    /// To be applied.
    pub services: Vec<Service>,
    /// For the status.
    pub statuses: Vec<ForkServiceStatus>,
    /// Services of the baseline that cannot be routed.
    pub unroutable: Vec<Unroutable>,
}

/// Builds one Service for each Service that selects the baseline's pods.
///
/// `baseline` and `fork` are the Deployments as JSON; `services` are those of the namespace.
pub fn fork_services(
    sandbox: &Sandbox,
    baseline: &Value,
    fork: &Value,
    services: &[Service],
) -> ForkServices {
    let (before, after) = (PodTemplate::from_workload(baseline), PodTemplate::from_workload(fork));
    let id = template::object_name(fork).to_owned();
    let mut selecting: Vec<&Service> = services
        .iter()
        .filter(|it| !is_managed(it) && has_all(&original_service(it).selector, &before.labels()))
        .collect();
    selecting.sort_by_key(|it| it.name_any());
    let mut found = ForkServices::default();
    for service in selecting {
        if let Some(reason) = unroutable_reason(service) {
            let unroutable = Unroutable { service: service.name_any(), reason: reason.to_owned() };
            found.unroutable.push(unroutable);
            continue;
        }
        let (made, status) = fork_service(sandbox, &id, service, after);
        if status.ports.is_empty() {
            // The API server rejects a Service without ports.
            let reason = "no container of the fork has one of its ports".to_owned();
            found.unroutable.push(Unroutable { service: service.name_any(), reason });
            continue;
        }
        found.services.push(made);
        found.statuses.push(status);
    }
    found
}

/// The routable Services of a baseline, with the container ports behind their ports.
pub fn baseline_services(baseline: &Value, services: &[Service]) -> Vec<BaselineService> {
    let template = PodTemplate::from_workload(baseline);
    let labels = template.labels();
    let selecting = services.iter().filter(|it| {
        !is_managed(it) && unroutable_reason(it).is_none() && has_all(&original_service(it).selector, &labels)
    });
    let one = |service: &Service| {
        let ports = original_service(service).ports.into_iter().filter_map(|port| {
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
    hashed_name(["Service", namespace, service], sandbox, MAX_NAME_LENGTH)
}

fn unroutable_reason(service: &Service) -> Option<&'static str> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return Some("it is an ExternalName: it has no cluster IP to route");
    }
    let is_headless = spec.cluster_ip.as_deref() == Some("None");
    is_headless.then_some("it is headless: clients connect to the pods directly")
}

fn fork_service(
    sandbox: &Sandbox,
    id: &str,
    service: &Service,
    fork: PodTemplate<'_>,
) -> (Service, ForkServiceStatus) {
    let namespace = sandbox.namespace().unwrap_or_default();
    let name = fork_service_name(&namespace, &service.name_any(), &sandbox.name_any());
    let (mut ports, mut statuses, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for port in original_service(service).ports {
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
    (build_service(sandbox, (name, id), service, ports), status)
}

fn build_service(
    sandbox: &Sandbox,
    (name, id): (String, &str),
    from: &Service,
    ports: Vec<ServicePort>,
) -> Service {
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
        owner_references: template::owner_reference(sandbox).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    Service { metadata, spec: Some(spec), status: None }
}

/// The container port behind a Service port. A number is used as is: containers need not declare ports.
fn target_port(port: &ServicePort, pod: PodTemplate<'_>) -> Option<i32> {
    match port.target_port.as_ref() {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            name.parse().ok().or_else(|| pod.named_port(name, protocol))
        }
    }
}

/// The Services and disruption budgets that would select the fork's pods as the baseline's because of preserved labels.
pub fn misselecting_objects(
    fork_labels: &Labels,
    own: &Labels,
    around: &crate::namespace_context::NamespaceContext<'_>,
) -> Vec<String> {
    let services = around.services.iter().filter(|it| !is_managed(it));
    let services = services.filter(|it| has_all(&original_service(it).selector, fork_labels));
    let services = services.map(|it| format!("Service {}", it.name_any()));
    let budgets = around.budgets.iter().filter(|it| {
        let selector = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        // One that also selects our own labels alone, such as one for all pods, is not misled by preserved labels.
        selector.is_some_and(|it| crate::labels::selects(it, fork_labels) && !crate::labels::selects(it, own))
    });
    let budgets = budgets.map(|it| format!("PodDisruptionBudget {}", it.name_any()));
    services.chain(budgets).collect()
}

#[cfg(test)]
mod tests;
