//! Legacy Endpoints: one object per Service. No I/O.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    super::pod_state::is_ready,
    pod_endpoint::{
        IpFamily, addresses, hostname, ip_families, is_endpoint, is_headless, ports, publishes_not_ready,
        target_ref,
    },
    slices::HEADLESS_LABEL,
};
use crate::object::{MetaAccessor, get_path, str_at};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// The desired object; `None` if it is up to date.
pub fn plan_endpoints(service: &Value, pods: &[Value], present: Option<&Value>) -> Option<Value> {
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
        get_path(service, &["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    labels.shift_remove(HEADLESS_LABEL);
    if is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), "".into());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    Value::Object(labels)
}

/// Addresses by sort key, and whether they are ready.
type SubsetAddresses = BTreeMap<(String, String), (Value, bool)>;

/// Ports with the same addresses form one subset.
fn subsets(service: &Value, pods: &[Value]) -> Vec<Value> {
    let family = ip_families(service).first().copied().unwrap_or(IpFamily::V4);
    let all = publishes_not_ready(service);
    let is_portless =
        get_path(service, &["spec", "ports"]).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let mut by_port: BTreeMap<String, (Option<Value>, SubsetAddresses)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_endpoint(pod, all)) {
        let Some(ip) = addresses(pod, family).into_iter().next() else { continue };
        let key = (ip.clone(), pod.uid().to_owned());
        let entry = (address(service, pod, &ip), all || is_ready(pod));
        let ports = ports(service, pod).into_iter().map(legacy_port).map(Some);
        let none = (is_portless && is_headless(service)).then_some(None);
        for port in ports.chain(none) {
            let name = port.as_ref().map(Value::to_string).unwrap_or_default();
            by_port
                .entry(name)
                .or_insert_with(|| (port, SubsetAddresses::new()))
                .1
                .insert(key.clone(), entry.clone());
        }
    }
    let mut subsets: Vec<(SubsetAddresses, Vec<Value>)> = Vec::new();
    for (port, addresses) in by_port.into_values() {
        match subsets.iter_mut().find(|(same, _)| *same == addresses) {
            Some((_, ports)) => ports.extend(port),
            None => subsets.push((addresses, port.into_iter().collect())),
        }
    }
    subsets.into_iter().map(|(addresses, ports)| subset(addresses, ports)).collect()
}

fn subset(addresses: SubsetAddresses, ports: Vec<Value>) -> Value {
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
        ("nodeName", str_at(pod, &["spec", "nodeName"])),
    ] {
        if !value.is_empty() {
            address[key] = value.into();
        }
    }
    address["targetRef"] = target_ref(pod);
    address
}

/// An unnamed port has no name here, but an empty one in `EndpointSlices`.
fn legacy_port(mut port: Value) -> Value {
    if str_at(&port, &["name"]).is_empty()
        && let Some(fields) = port.as_object_mut()
    {
        fields.shift_remove("name");
    }
    port
}
