//! Cells of the kinds whose rows say more than their fields.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{age, name};
use crate::{
    kinds::common::{flag, has, int, list, map},
    object::{at, text},
    selectors::LabelSelector,
};

pub const NONE: &str = "<none>";

pub fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind)
}

pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| text(one, &["status"]) == "True")
}

// === nodes ===

/// Cells of a Node.
pub fn node_cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match condition(node, "Ready") {
        Some(ready) if text(ready, &["status"]) == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(node, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let addresses = list(node, &["status", "addresses"]).iter();
        let mut of_kind = addresses.filter(|one| text(one, &["type"]) == kind);
        of_kind.next().map_or(NONE, |one| text(one, &["address"])).to_owned()
    };
    let info = |key: &str| text(node, &["status", "nodeInfo", key]);
    let or_unknown = |text: &str| if text.is_empty() { "<unknown>" } else { text }.to_owned();
    let mut kernel = or_unknown(info("kernelVersion"));
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        name(node),
        status.into(),
        or_none(&roles(node)).into(),
        age(node, now),
        info("kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or_unknown(info("osImage")).into(),
        kernel.into(),
        or_unknown(info("containerRuntimeVersion")).into(),
    ]
}

fn roles(node: &Value) -> String {
    let roles: BTreeSet<&str> = map(node, &["metadata", "labels"])
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => value.as_str().filter(|_| key == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

// === services and endpoints ===

/// Cells of a Service.
pub fn service_cells(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = |key: &str| list(service, &["spec", key]);
    let address = spec("clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE);
    let ports: Vec<String> = spec("ports")
        .iter()
        .map(|port| {
            let number = |key: &str| int(port, &[key]).unwrap_or_default();
            match number("nodePort") {
                0 => format!("{}/{}", number("port"), text(port, &["protocol"])),
                node => format!("{}:{node}/{}", number("port"), text(port, &["protocol"])),
            }
        })
        .collect();
    let selector = labels_text(at(service, &["spec", "selector"]));
    vec![
        name(service),
        text(service, &["spec", "type"]).into(),
        address.into(),
        external(service).into(),
        or_none(&ports.join(",")).into(),
        age(service, now),
        selector.into(),
    ]
}

fn external(service: &Value) -> String {
    let given: Vec<&str> = list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match text(service, &["spec", "type"]) {
        "ClusterIP" | "NodePort" => or_none(&given.join(",")).to_owned(),
        "LoadBalancer" => {
            let balanced: BTreeSet<&str> = list(service, &["status", "loadBalancer", "ingress"])
                .iter()
                .map(|one| match text(one, &["ip"]) {
                    "" => text(one, &["hostname"]),
                    ip => ip,
                })
                .filter(|one| !one.is_empty())
                .collect();
            let all: Vec<&str> = balanced.into_iter().chain(given).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(service, &["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Labels as one text, sorted.
pub fn labels_text(labels: Option<&Value>) -> String {
    let text = labels.and_then(Value::as_object).map(|labels| LabelSelector::of_labels(labels).to_string());
    or_none(&text.unwrap_or_default()).to_owned()
}

/// The first three, and how many more there are.
fn first_three(all: &[String]) -> String {
    let shown = all.get(..3).unwrap_or(all).join(",");
    if all.len() > 3 { format!("{shown} + {} more...", all.len() - 3) } else { shown }
}

/// Addresses and ports of Endpoints.
pub fn endpoints_text(endpoints: &Value) -> String {
    let subsets = list(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list(subset, &["addresses"]).iter().map(|one| text(one, &["ip"]));
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = int(port, &["port"]).unwrap_or_default();
            all.extend(
                addresses().map(|ip| {
                    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                }),
            );
        }
    }
    first_three(&all)
}

fn some_or_unset(all: &[String]) -> String {
    if all.is_empty() { "<unset>".to_owned() } else { first_three(all) }
}

/// Ports of an `EndpointSlice`.
pub fn endpoint_slice_ports(slice: &Value) -> String {
    let ports = list(slice, &["ports"]).iter().map(|port| match int(port, &["port"]) {
        Some(number) => number.to_string(),
        None if has(port, &["name"]) => text(port, &["name"]).to_owned(),
        None => "*".to_owned(),
    });
    some_or_unset(&ports.collect::<Vec<_>>())
}

/// Addresses of an `EndpointSlice`.
pub fn endpoint_slice_endpoints(slice: &Value) -> String {
    let endpoints = list(slice, &["endpoints"]).iter();
    let addresses = endpoints.flat_map(|one| list(one, &["addresses"])).filter_map(Value::as_str);
    some_or_unset(&addresses.map(str::to_owned).collect::<Vec<_>>())
}

// === events ===

/// Cells of an Event in its core form; `ago` tells the time since a moment.
pub fn events(event: &Value, ago: impl Fn(&str) -> String) -> Vec<Value> {
    let moment = |key: &str| text(event, &[key]);
    let first =
        ago(if moment("firstTimestamp").is_empty() { moment("eventTime") } else { moment("firstTimestamp") });
    let mut last =
        if moment("lastTimestamp").is_empty() { first.clone() } else { ago(moment("lastTimestamp")) };
    let mut count = int(event, &["count"]).filter(|count| *count != 0).unwrap_or(1);
    if has(event, &["series"]) {
        last = ago(text(event, &["series", "lastObservedTime"]));
        count = int(event, &["series", "count"]).unwrap_or_default();
    }
    let either = |first: &'_ [&str], second: &'_ [&str]| {
        let found = text(event, first);
        if found.is_empty() { text(event, second) } else { found }.to_owned()
    };
    let component = either(&["source", "component"], &["reportingComponent"]);
    let instance = either(&["source", "host"], &["reportingInstance"]);
    let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
    let kind = text(event, &["involvedObject", "kind"]).to_lowercase();
    let target = match text(event, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        moment("type").into(),
        moment("reason").into(),
        target.into(),
        text(event, &["involvedObject", "fieldPath"]).into(),
        source.into(),
        moment("message").trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}

// === workloads ===

/// Cells of a Deployment or `ReplicaSet`.
pub fn replica_cells(object: &Value, now: Timestamp, deployment: bool) -> Vec<Value> {
    let status = |key: &str| int(object, &["status", key]).unwrap_or_default();
    let wished = int(object, &["spec", "replicas"]).unwrap_or_default();
    let containers = |key: &str| {
        let containers = list(object, &["spec", "template", "spec", "containers"]).iter();
        containers.map(|one| text(one, &[key])).collect::<Vec<_>>().join(",")
    };
    let selector = match LabelSelector::of(at(object, &["spec", "selector"])) {
        Ok(selector) => selector.to_string(),
        Err(_) if deployment => "<invalid>".to_owned(),
        Err(_) => "<error>".to_owned(),
    };
    let selector = if deployment { selector } else { or_none(&selector).to_owned() };
    let mut cells = vec![name(object)];
    if deployment {
        cells.push(format!("{}/{wished}", status("readyReplicas")).into());
        cells.extend([status("updatedReplicas").into(), status("availableReplicas").into()]);
    } else {
        cells.extend([wished.into(), status("replicas").into(), status("readyReplicas").into()]);
    }
    cells.extend([age(object, now), containers("name").into(), containers("image").into(), selector.into()]);
    cells
}
