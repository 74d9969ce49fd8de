//! Cells of kinds whose columns are computed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{age_cell, name_cell};
use crate::{
    kinds::common::{bool_at, has_path, int_at, list_at, map_at},
    object::{get_path, str_at},
    selectors::LabelSelector,
};

pub const NONE: &str = "<none>";

pub fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(object, &["status", "conditions"]).iter().find(|one| str_at(one, &["type"]) == kind)
}

pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| str_at(one, &["status"]) == "True")
}

// === nodes ===

/// Cells of a Node.
pub fn node_cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match condition(node, "Ready") {
        Some(ready) if str_at(ready, &["status"]) == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if bool_at(node, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let addresses = list_at(node, &["status", "addresses"]).iter();
        let mut of_kind = addresses.filter(|one| str_at(one, &["type"]) == kind);
        of_kind.next().map_or(NONE, |one| str_at(one, &["address"])).to_owned()
    };
    let info = |key: &str| str_at(node, &["status", "nodeInfo", key]);
    let or_unknown = |text: &str| if text.is_empty() { "<unknown>" } else { text }.to_owned();
    let mut kernel = or_unknown(info("kernelVersion"));
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        name_cell(node),
        status.into(),
        or_none(&roles(node)).into(),
        age_cell(node, now),
        info("kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or_unknown(info("osImage")).into(),
        kernel.into(),
        or_unknown(info("containerRuntimeVersion")).into(),
    ]
}

fn roles(node: &Value) -> String {
    let roles: BTreeSet<&str> = map_at(node, &["metadata", "labels"])
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
    let spec = |key: &str| list_at(service, &["spec", key]);
    let address = spec("clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE);
    let ports: Vec<String> = spec("ports")
        .iter()
        .map(|port| {
            let number = |key: &str| int_at(port, &[key]).unwrap_or_default();
            match number("nodePort") {
                0 => format!("{}/{}", number("port"), str_at(port, &["protocol"])),
                node => format!("{}:{node}/{}", number("port"), str_at(port, &["protocol"])),
            }
        })
        .collect();
    let selector = labels_text(get_path(service, &["spec", "selector"]));
    vec![
        name_cell(service),
        str_at(service, &["spec", "type"]).into(),
        address.into(),
        external_addresses(service).into(),
        or_none(&ports.join(",")).into(),
        age_cell(service, now),
        selector.into(),
    ]
}

fn external_addresses(service: &Value) -> String {
    let given: Vec<&str> =
        list_at(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match str_at(service, &["spec", "type"]) {
        "ClusterIP" | "NodePort" => or_none(&given.join(",")).to_owned(),
        "LoadBalancer" => {
            let balanced: BTreeSet<&str> = list_at(service, &["status", "loadBalancer", "ingress"])
                .iter()
                .map(|one| match str_at(one, &["ip"]) {
                    "" => str_at(one, &["hostname"]),
                    ip => ip,
                })
                .filter(|one| !one.is_empty())
                .collect();
            let all: Vec<&str> = balanced.into_iter().chain(given).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => str_at(service, &["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Sorted labels as one string.
pub fn labels_text(labels: Option<&Value>) -> String {
    let text =
        labels.and_then(Value::as_object).map(|labels| LabelSelector::from_match_labels(labels).to_string());
    or_none(&text.unwrap_or_default()).to_owned()
}

/// The first three, and the number of the others.
fn join_first_three(all: &[String]) -> String {
    let shown = all.get(..3).unwrap_or(all).join(",");
    if all.len() > 3 { format!("{shown} + {} more...", all.len() - 3) } else { shown }
}

/// Addresses and ports of Endpoints.
pub fn endpoints_text(endpoints: &Value) -> String {
    let subsets = list_at(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list_at(subset, &["addresses"]).iter().map(|one| str_at(one, &["ip"]));
        let ports = list_at(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = int_at(port, &["port"]).unwrap_or_default();
            all.extend(
                addresses().map(|ip| {
                    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                }),
            );
        }
    }
    join_first_three(&all)
}

fn join_or_unset(all: &[String]) -> String {
    if all.is_empty() { "<unset>".to_owned() } else { join_first_three(all) }
}

/// Ports of an `EndpointSlice`.
pub fn endpoint_slice_ports(slice: &Value) -> String {
    let ports = list_at(slice, &["ports"]).iter().map(|port| match int_at(port, &["port"]) {
        Some(number) => number.to_string(),
        None if has_path(port, &["name"]) => str_at(port, &["name"]).to_owned(),
        None => "*".to_owned(),
    });
    join_or_unset(&ports.collect::<Vec<_>>())
}

/// Addresses of an `EndpointSlice`.
pub fn endpoint_slice_endpoints(slice: &Value) -> String {
    let endpoints = list_at(slice, &["endpoints"]).iter();
    let addresses = endpoints.flat_map(|one| list_at(one, &["addresses"])).filter_map(Value::as_str);
    join_or_unset(&addresses.map(str::to_owned).collect::<Vec<_>>())
}

// === events ===

/// Cells of an Event in its core form; `ago` formats the time since a timestamp.
pub fn event_cells(event: &Value, ago: impl Fn(&str) -> String) -> Vec<Value> {
    let moment = |key: &str| str_at(event, &[key]);
    let first =
        ago(if moment("firstTimestamp").is_empty() { moment("eventTime") } else { moment("firstTimestamp") });
    let mut last =
        if moment("lastTimestamp").is_empty() { first.clone() } else { ago(moment("lastTimestamp")) };
    let mut count = int_at(event, &["count"]).filter(|count| *count != 0).unwrap_or(1);
    if has_path(event, &["series"]) {
        last = ago(str_at(event, &["series", "lastObservedTime"]));
        count = int_at(event, &["series", "count"]).unwrap_or_default();
    }
    let either = |first: &'_ [&str], second: &'_ [&str]| {
        let found = str_at(event, first);
        if found.is_empty() { str_at(event, second) } else { found }.to_owned()
    };
    let component = either(&["source", "component"], &["reportingComponent"]);
    let instance = either(&["source", "host"], &["reportingInstance"]);
    let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
    let kind = str_at(event, &["involvedObject", "kind"]).to_lowercase();
    let target = match str_at(event, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        moment("type").into(),
        moment("reason").into(),
        target.into(),
        str_at(event, &["involvedObject", "fieldPath"]).into(),
        source.into(),
        moment("message").trim().into(),
        first.into(),
        count.into(),
        name_cell(event),
    ]
}

// === workloads ===

/// Cells of a Deployment or `ReplicaSet`.
pub fn replica_cells(object: &Value, now: Timestamp, deployment: bool) -> Vec<Value> {
    let status = |key: &str| int_at(object, &["status", key]).unwrap_or_default();
    let wished = int_at(object, &["spec", "replicas"]).unwrap_or_default();
    let containers = |key: &str| {
        let containers = list_at(object, &["spec", "template", "spec", "containers"]).iter();
        containers.map(|one| str_at(one, &[key])).collect::<Vec<_>>().join(",")
    };
    let selector = match LabelSelector::from_value(get_path(object, &["spec", "selector"])) {
        Ok(selector) => selector.to_string(),
        Err(_) if deployment => "<invalid>".to_owned(),
        Err(_) => "<error>".to_owned(),
    };
    let selector = if deployment { selector } else { or_none(&selector).to_owned() };
    let mut cells = vec![name_cell(object)];
    if deployment {
        cells.push(format!("{}/{wished}", status("readyReplicas")).into());
        cells.extend([status("updatedReplicas").into(), status("availableReplicas").into()]);
    } else {
        cells.extend([wished.into(), status("replicas").into(), status("readyReplicas").into()]);
    }
    cells.extend([
        age_cell(object, now),
        containers("name").into(),
        containers("image").into(),
        selector.into(),
    ]);
    cells
}
