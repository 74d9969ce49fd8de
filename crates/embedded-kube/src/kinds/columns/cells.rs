//! Cells of the kinds whose rows say more than their fields.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{age, ago, name};
use crate::{
    kinds::common::{flag, has, int, list, map},
    object::{Meta, at, text},
    selectors::LabelSelector,
};

const NONE: &str = "<none>";

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| text(one, &["status"]) == "True")
}

// === pods ===

/// Restarts, the moment of the last one, and the state in one word.
#[derive(Default)]
struct PodState<'a> {
    ready: usize,
    restarts: i64,
    last_restart: &'a str,
    word: String,
}

impl<'a> PodState<'a> {
    fn restarted(&mut self, container: &'a Value) {
        self.restarts += int(container, &["restartCount"]).unwrap_or_default();
        let finished = text(container, &["lastState", "terminated", "finishedAt"]);
        // Both are in the one form that sorts as text.
        if finished > self.last_restart {
            self.last_restart = finished;
        }
    }
}

/// Cells of a Pod.
pub fn pod_cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let sidecars = sidecars(pod);
    let total = list(pod, &["spec", "containers"]).len() + sidecars.len();
    let state = pod_state(pod, &sidecars);
    let restarts = if state.restarts != 0 && !state.last_restart.is_empty() {
        format!("{} ({} ago)", state.restarts, ago(state.last_restart, now))
    } else {
        state.restarts.to_string()
    };
    let address = list(pod, &["status", "podIPs"]).first().map_or("", |one| text(one, &["ip"]));
    vec![
        name(pod),
        format!("{}/{total}", state.ready).into(),
        state.word.into(),
        restarts.into(),
        age(pod, now),
        or_none(address).into(),
        or_none(text(pod, &["spec", "nodeName"])).into(),
        or_none(text(pod, &["status", "nominatedNodeName"])).into(),
        gates(pod).into(),
    ]
}

/// Init containers that keep running.
fn sidecars(pod: &Value) -> BTreeSet<&str> {
    list(pod, &["spec", "initContainers"])
        .iter()
        .filter(|one| text(one, &["restartPolicy"]) == "Always")
        .map(|one| text(one, &["name"]))
        .collect()
}

fn pod_state<'a>(pod: &'a Value, sidecars: &BTreeSet<&str>) -> PodState<'a> {
    let phase = text(pod, &["status", "phase"]);
    let reason = text(pod, &["status", "reason"]);
    let mut state =
        PodState { word: if reason.is_empty() { phase } else { reason }.to_owned(), ..PodState::default() };
    if condition(pod, "PodScheduled").is_some_and(|one| text(one, &["reason"]) == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut state.word);
    }
    let (initializing, side) = init_state(pod, sidecars, &mut state);
    if !initializing || is_true(pod, "Initialized") {
        state.restarts = side.restarts;
        state.last_restart = side.last_restart;
        main_state(pod, &mut state);
    }
    if pod.is_terminating() {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut state.word);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut state.word);
        }
    }
    state
}

/// Whether init containers are still at work, and what those that keep running have restarted.
fn init_state<'a>(
    pod: &'a Value,
    sidecars: &BTreeSet<&str>,
    state: &mut PodState<'a>,
) -> (bool, PodState<'a>) {
    let mut side = PodState::default();
    let total = list(pod, &["spec", "initContainers"]).len();
    for (index, container) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        state.restarted(container);
        let is_side = sidecars.contains(text(container, &["name"]));
        if is_side {
            side.restarted(container);
        }
        let ended = at(container, &["state", "terminated"]).filter(|ended| !ended.is_null());
        let waiting = text(container, &["state", "waiting", "reason"]);
        state.word = match ended {
            Some(ended) if int(ended, &["exitCode"]).unwrap_or_default() == 0 => continue,
            _ if is_side && flag(container, &["started"]) => {
                state.ready += usize::from(flag(container, &["ready"]));
                continue;
            }
            Some(ended) => format!("Init:{}", end_word(ended)),
            None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
            None => format!("Init:{index}/{total}"),
        };
        return (true, side);
    }
    (false, side)
}

fn end_word(ended: &Value) -> String {
    let number = |key: &str| int(ended, &[key]).unwrap_or_default();
    match (text(ended, &["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn main_state<'a>(pod: &'a Value, state: &mut PodState<'a>) {
    let (mut running, mut failed) = (false, None);
    for container in list(pod, &["status", "containerStatuses"]).iter().rev() {
        state.restarted(container);
        let waiting = text(container, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut state.word);
        } else if let Some(ended) = at(container, &["state", "terminated"]).filter(|ended| !ended.is_null()) {
            state.word = end_word(ended);
            if int(ended, &["exitCode"]).unwrap_or_default() != 0 {
                failed = Some(state.word.clone());
            }
        } else if flag(container, &["ready"]) && has(container, &["state", "running"]) {
            running = true;
            state.ready += 1;
        }
    }
    if state.word == "Completed" {
        if running && is_true(pod, "Ready") {
            "Running".clone_into(&mut state.word);
        } else if let Some(word) = failed {
            state.word = word;
        } else if running {
            "NotReady".clone_into(&mut state.word);
        }
    }
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| is_true(pod, text(gate, &["conditionType"]))).count();
    format!("{open}/{}", gates.len())
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
