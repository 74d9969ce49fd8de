//! Which endpoint slices a service should have, given its pods and the slices it has. No I/O.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::{
    super::pods::{controller_ref, is_ready},
    facts::{Family, addresses, counts, families, hostname, is_headless, ports, publishes_all, target},
};
use crate::object::{Meta, at, text};

/// Marks the slices of this controller.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Names the service of a slice.
pub const SERVICE: &str = "kubernetes.io/service-name";
/// Marks everything of a headless service.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
const PER_SLICE: usize = 100;

/// What to write.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// New slices.
    pub create: Vec<Value>,
    /// Changed slices.
    pub update: Vec<Value>,
    /// Names of slices to delete.
    pub delete: Vec<String>,
    /// Pods that wait for their node to be known.
    pub without_node: Vec<String>,
}

/// See the module. `zones` has every known node, with its zone if it has one.
pub fn plan(service: &Value, pods: &[Value], slices: Vec<Value>, zones: &HashMap<String, String>) -> Changes {
    let mut changes = Changes::default();
    let families = families(service);
    let mut by_family: BTreeMap<Family, Vec<Value>> =
        families.iter().map(|family| (*family, Vec::new())).collect();
    for slice in slices.into_iter().filter(|slice| !slice.is_terminating()) {
        let family = families.iter().find(|family| family.name() == text(&slice, &["addressType"]));
        match family.and_then(|family| by_family.get_mut(family)) {
            Some(known) => known.push(slice),
            None => changes.delete.push(slice.name().to_owned()),
        }
    }
    for (family, slices) in by_family {
        plan_family(service, pods, (family, slices), zones, &mut changes);
    }
    changes
}

fn plan_family(
    service: &Value,
    pods: &[Value],
    (family, slices): (Family, Vec<Value>),
    zones: &HashMap<String, String>,
    changes: &mut Changes,
) {
    let count = slices.len();
    let (mut own, foreign): (Vec<Value>, Vec<Value>) =
        slices.into_iter().partition(|slice| is_owned(slice, service));
    let mut delete: Vec<Value> = foreign;
    let mut created = Vec::new();
    for (key, (ports, wished)) in wished(service, pods, family, zones, changes) {
        let (same, rest) = own.into_iter().partition(|slice| ports_key(slice.get("ports")) == key);
        own = rest;
        let mut group = Group { service, wished, create: Vec::new(), update: Vec::new(), delete: Vec::new() };
        group.fill(same, || empty_slice(service, family, &ports));
        created.extend(group.create);
        changes.update.extend(group.update);
        delete.extend(group.delete);
    }
    delete.extend(own);
    if delete.len() == count && created.is_empty() {
        let placeholder = empty_slice(service, family, &[]);
        match delete.as_slice() {
            [only] if is_owned(only, service) && is_placeholder(only, &placeholder) => delete.clear(),
            _ => created.push(placeholder),
        }
    }
    changes.create.extend(created);
    changes.delete.extend(delete.iter().map(|slice| slice.name().to_owned()));
}

type Wished = BTreeMap<String, (Vec<Value>, Vec<Value>)>;

/// Endpoints by their ports, which pods of one service can have different numbers for.
fn wished(
    service: &Value,
    pods: &[Value],
    family: Family,
    zones: &HashMap<String, String>,
    changes: &mut Changes,
) -> Wished {
    let mut all = Wished::new();
    for pod in pods.iter().filter(|pod| counts(pod, true)) {
        let ports = ports(service, pod);
        let group =
            all.entry(ports_key(Some(&Value::Array(ports.clone())))).or_insert_with(|| (ports, Vec::new()));
        let node = text(pod, &["spec", "nodeName"]);
        let zone = zones.get(node);
        if zone.is_none() && !publishes_all(service) {
            changes.without_node.push(pod.name().to_owned());
            continue;
        }
        let addresses = addresses(pod, family);
        if !addresses.is_empty() {
            group.1.push(endpoint(service, pod, &addresses, zone.map(String::as_str).unwrap_or_default()));
        }
    }
    all
}

fn endpoint(service: &Value, pod: &Value, addresses: &[String], zone: &str) -> Value {
    let serving = is_ready(pod);
    let terminating = pod.is_terminating();
    let ready = publishes_all(service) || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target(pod),
    });
    let node = text(pod, &["spec", "nodeName"]);
    for (key, value) in
        [("hostname", hostname(pod, service).unwrap_or_default()), ("nodeName", node), ("zone", zone)]
    {
        if !value.is_empty() {
            endpoint[key] = value.into();
        }
    }
    endpoint
}

/// Ports in an order that does not matter, as text.
fn ports_key(ports: Option<&Value>) -> String {
    let list = ports.and_then(Value::as_array);
    let mut keys: Vec<String> = list
        .into_iter()
        .flatten()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64);
            let [name, protocol, application] =
                ["name", "protocol", "appProtocol"].map(|key| text(port, &[key]));
            format!("{name}|{number:?}|{protocol}|{application}")
        })
        .collect();
    keys.sort();
    keys.join(",")
}

fn is_owned(slice: &Value, service: &Value) -> bool {
    let owners = at(slice, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| text(owner, &["uid"]) == service.uid())
}

fn is_placeholder(slice: &Value, placeholder: &Value) -> bool {
    let is_empty = |key: &str| slice.get(key).is_none_or(|list| list.as_array().is_none_or(Vec::is_empty));
    is_empty("endpoints")
        && is_empty("ports")
        && at(slice, &["metadata", "labels"]) == at(placeholder, &["metadata", "labels"])
}

fn labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> =
        at(service, &["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    labels.retain(|key, _| ![SERVICE, MANAGED_BY, HEADLESS].contains(&key.as_str()));
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(SERVICE.to_owned(), service.name().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    Value::Object(labels)
}

fn empty_slice(service: &Value, family: Family, ports: &[Value]) -> Value {
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", service.name()), "namespace": service.namespace(),
            "labels": labels(service), "ownerReferences": [controller_ref(service, "v1", "Service")],
        },
        "addressType": family.name(),
    });
    // An empty list would be a field that this controller manages.
    if !ports.is_empty() {
        slice["ports"] = ports.into();
    }
    slice
}

/// Slices with the same ports.
struct Group<'a> {
    service: &'a Value,
    wished: Vec<Value>,
    create: Vec<Value>,
    update: Vec<Value>,
    delete: Vec<Value>,
}

impl Group<'_> {
    /// Endpoints stay in the slice they are in; new ones go where there is room.
    fn fill(&mut self, slices: Vec<Value>, new: impl Fn() -> Value) {
        let mut unchanged = Vec::new();
        for mut slice in slices {
            let present = slice.get("endpoints").and_then(Value::as_array).cloned().unwrap_or_default();
            let kept: Vec<Value> = present.iter().filter_map(|endpoint| self.take(endpoint)).collect();
            let labels = labels(self.service);
            let is_relabelled = at(&slice, &["metadata", "labels"]) != Some(&labels);
            if kept.is_empty() && !present.is_empty() {
                self.delete.push(slice);
            } else if kept != present || is_relabelled {
                slice["endpoints"] = kept.into();
                slice["metadata"]["labels"] = labels;
                self.update.push(slice);
            } else {
                unchanged.push(slice);
            }
        }
        self.update.sort_by_key(|slice| std::cmp::Reverse(endpoints_in(slice)));
        let mut updated = std::mem::take(&mut self.update);
        for slice in &mut updated {
            self.top_up(slice);
        }
        self.update = updated;
        if !self.wished.is_empty()
            && let Some(index) =
                unchanged.iter().position(|one| endpoints_in(one) + self.wished.len() <= PER_SLICE)
        {
            let mut slice = unchanged.swap_remove(index);
            self.top_up(&mut slice);
            self.update.push(slice);
        }
        while !self.wished.is_empty() {
            let mut slice = new();
            self.top_up(&mut slice);
            self.create.push(slice);
        }
    }

    /// What is wished of an endpoint that is there.
    fn take(&mut self, present: &Value) -> Option<Value> {
        let is_same = |one: &Value| {
            one.get("addresses") == present.get("addresses")
                && text(one, &["hostname"]) == text(present, &["hostname"])
                && text(one, &["targetRef", "name"]) == text(present, &["targetRef", "name"])
        };
        let index = self.wished.iter().position(is_same)?;
        Some(self.wished.remove(index))
    }

    fn top_up(&mut self, slice: &mut Value) {
        let room = PER_SLICE.saturating_sub(endpoints_in(slice)).min(self.wished.len());
        let more: Vec<Value> = self.wished.drain(..room).collect();
        if let Some(list) = slice.get_mut("endpoints").and_then(Value::as_array_mut) {
            list.extend(more);
        } else if !more.is_empty() {
            slice["endpoints"] = more.into();
        }
    }
}

fn endpoints_in(slice: &Value) -> usize {
    slice.get("endpoints").and_then(Value::as_array).map_or(0, Vec::len)
}
