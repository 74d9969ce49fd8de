//! The older form of the same: one `Endpoints` object per service. No I/O.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    super::pods::is_ready,
    facts::{Family, addresses, counts, families, hostname, is_headless, ports, publishes_all, target},
    slices::HEADLESS,
};
use crate::object::{Meta, at, text};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// What the object should be; `None` if it is so already.
pub fn plan(service: &Value, pods: &[Value], present: Option<&Value>) -> Option<Value> {
    let subsets = subsets(service, pods);
    let labels = labels(service);
    let mut object = present.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": service.name(), "namespace": service.namespace()},
        })
    });
    object["metadata"]["labels"] = labels;
    if let Some(fields) = object.as_object_mut() {
        if subsets.is_empty() {
            fields.shift_remove("subsets");
        } else {
            fields.insert("subsets".to_owned(), Value::Array(subsets));
        }
    }
    (present != Some(&object)).then_some(object)
}

fn labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> =
        at(service, &["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    labels.shift_remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    Value::Object(labels)
}

/// An address by what it is sorted by, and whether it serves.
type Addresses = BTreeMap<(String, String), (Value, bool)>;

/// Ports that have the same addresses are one subset.
fn subsets(service: &Value, pods: &[Value]) -> Vec<Value> {
    let family = families(service).first().copied().unwrap_or(Family::V4);
    let all = publishes_all(service);
    let is_portless = at(service, &["spec", "ports"]).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let mut by_port: BTreeMap<String, (Option<Value>, Addresses)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| counts(pod, all)) {
        let Some(ip) = addresses(pod, family).into_iter().next() else { continue };
        let key = (ip.clone(), pod.uid().to_owned());
        let entry = (address(service, pod, &ip), all || is_ready(pod));
        let ports = ports(service, pod).into_iter().map(plain_port).map(Some);
        let none = (is_portless && is_headless(service)).then_some(None);
        for port in ports.chain(none) {
            let name = port.as_ref().map(Value::to_string).unwrap_or_default();
            by_port
                .entry(name)
                .or_insert_with(|| (port, Addresses::new()))
                .1
                .insert(key.clone(), entry.clone());
        }
    }
    let mut subsets: Vec<(Addresses, Vec<Value>)> = Vec::new();
    for (port, addresses) in by_port.into_values() {
        match subsets.iter_mut().find(|(same, _)| *same == addresses) {
            Some((_, ports)) => ports.extend(port),
            None => subsets.push((addresses, port.into_iter().collect())),
        }
    }
    subsets.into_iter().map(|(addresses, ports)| subset(addresses, ports)).collect()
}

fn subset(addresses: Addresses, ports: Vec<Value>) -> Value {
    let (ready, not_ready): (Vec<_>, Vec<_>) = addresses.into_values().partition(|(_, is_ready)| *is_ready);
    let mut subset = json!({});
    for (key, list) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
        if !list.is_empty() {
            subset[key] = list.into_iter().map(|(address, _)| address).collect();
        }
    }
    if !ports.is_empty() {
        subset["ports"] = ports.into();
    }
    subset
}

fn address(service: &Value, pod: &Value, ip: &str) -> Value {
    let mut address = json!({"ip": ip});
    for (key, value) in [
        ("hostname", hostname(pod, service).unwrap_or_default()),
        ("nodeName", text(pod, &["spec", "nodeName"])),
    ] {
        if !value.is_empty() {
            address[key] = value.into();
        }
    }
    address["targetRef"] = target(pod);
    address
}

/// A port without a name has none here, where a slice has an empty one.
fn plain_port(mut port: Value) -> Value {
    if text(&port, &["name"]).is_empty()
        && let Some(fields) = port.as_object_mut()
    {
        fields.shift_remove("name");
    }
    port
}
