//! Plans the `EndpointSlices` of a Service, given its pods and existing slices. No I/O.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::{
    super::pod_state::{controller_ref, is_ready},
    pod_endpoint::{
        IpFamily, addresses, hostname, ip_families, is_endpoint, is_headless, ports, publishes_not_ready,
        target_ref,
    },
};
use crate::object::{MetaAccessor, get_path, str_at};

/// Label that identifies the slices of this controller.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Label with the Service name.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Label of headless Services.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
const MAX_ENDPOINTS_PER_SLICE: usize = 100;

/// Writes to perform.
#[derive(Debug, Default, PartialEq)]
pub struct SliceChanges {
    /// Slices to create.
    pub create: Vec<Value>,
    /// Slices to update.
    pub update: Vec<Value>,
    /// Names of slices to delete.
    pub delete: Vec<String>,
    /// Pods whose node is unknown.
    pub without_node: Vec<String>,
}

/// Plans the slices. `zones` contains every known node, with its zone if it has one.
pub fn plan_slices(
    service: &Value,
    pods: &[Value],
    slices: Vec<Value>,
    zones: &HashMap<String, String>,
) -> SliceChanges {
    let mut changes = SliceChanges::default();
    let families = ip_families(service);
    let mut by_family: BTreeMap<IpFamily, Vec<Value>> =
        families.iter().map(|family| (*family, Vec::new())).collect();
    for slice in slices.into_iter().filter(|slice| !slice.is_terminating()) {
        let family = families.iter().find(|family| family.name() == str_at(&slice, &["addressType"]));
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
    (family, slices): (IpFamily, Vec<Value>),
    zones: &HashMap<String, String>,
    changes: &mut SliceChanges,
) {
    let count = slices.len();
    let (mut own, foreign): (Vec<Value>, Vec<Value>) =
        slices.into_iter().partition(|slice| is_owned(slice, service));
    let mut delete: Vec<Value> = foreign;
    let mut created = Vec::new();
    for (key, (ports, wished)) in desired_endpoints(service, pods, family, zones, changes) {
        let (same, rest) = own.into_iter().partition(|slice| ports_key(slice.get("ports")) == key);
        own = rest;
        let mut group = SliceGroup {
            service,
            desired: wished,
            create: Vec::new(),
            update: Vec::new(),
            delete: Vec::new(),
        };
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

type DesiredEndpoints = BTreeMap<String, (Vec<Value>, Vec<Value>)>;

/// Endpoints by ports: named target ports can resolve to different numbers on different pods.
fn desired_endpoints(
    service: &Value,
    pods: &[Value],
    family: IpFamily,
    zones: &HashMap<String, String>,
    changes: &mut SliceChanges,
) -> DesiredEndpoints {
    let mut all = DesiredEndpoints::new();
    for pod in pods.iter().filter(|pod| is_endpoint(pod, true)) {
        let ports = ports(service, pod);
        let group =
            all.entry(ports_key(Some(&Value::Array(ports.clone())))).or_insert_with(|| (ports, Vec::new()));
        let node = str_at(pod, &["spec", "nodeName"]);
        let zone = zones.get(node);
        if zone.is_none() && !publishes_not_ready(service) {
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
    let ready = publishes_not_ready(service) || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target_ref(pod),
    });
    let node = str_at(pod, &["spec", "nodeName"]);
    for (key, value) in
        [("hostname", hostname(pod, service).unwrap_or_default()), ("nodeName", node), ("zone", zone)]
    {
        if !value.is_empty() {
            endpoint[key] = value.into();
        }
    }
    endpoint
}

/// Order-independent key of ports.
fn ports_key(ports: Option<&Value>) -> String {
    let list = ports.and_then(Value::as_array);
    let mut keys: Vec<String> = list
        .into_iter()
        .flatten()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64);
            let [name, protocol, application] =
                ["name", "protocol", "appProtocol"].map(|key| str_at(port, &[key]));
            format!("{name}|{number:?}|{protocol}|{application}")
        })
        .collect();
    keys.sort();
    keys.join(",")
}

fn is_owned(slice: &Value, service: &Value) -> bool {
    let owners = get_path(slice, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| str_at(owner, &["uid"]) == service.uid())
}

fn is_placeholder(slice: &Value, placeholder: &Value) -> bool {
    let is_empty = |key: &str| slice.get(key).is_none_or(|list| list.as_array().is_none_or(Vec::is_empty));
    is_empty("endpoints")
        && is_empty("ports")
        && get_path(slice, &["metadata", "labels"]) == get_path(placeholder, &["metadata", "labels"])
}

fn labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> =
        get_path(service, &["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    labels.retain(|key, _| ![SERVICE_NAME_LABEL, MANAGED_BY, HEADLESS_LABEL].contains(&key.as_str()));
    if is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), "".into());
    }
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.name().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    Value::Object(labels)
}

fn empty_slice(service: &Value, family: IpFamily, ports: &[Value]) -> Value {
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", service.name()), "namespace": service.namespace(),
            "labels": labels(service), "ownerReferences": [controller_ref(service, "v1", "Service")],
        },
        "addressType": family.name(),
    });
    // An empty list would be owned by this controller.
    if !ports.is_empty() {
        slice["ports"] = ports.into();
    }
    slice
}

/// Slices with the same ports.
struct SliceGroup<'a> {
    service: &'a Value,
    desired: Vec<Value>,
    create: Vec<Value>,
    update: Vec<Value>,
    delete: Vec<Value>,
}

impl SliceGroup<'_> {
    /// Endpoints stay in their slice; new ones fill slices with free space.
    fn fill(&mut self, slices: Vec<Value>, new: impl Fn() -> Value) {
        let mut unchanged = Vec::new();
        for mut slice in slices {
            let present = slice.get("endpoints").and_then(Value::as_array).cloned().unwrap_or_default();
            let kept: Vec<Value> =
                present.iter().filter_map(|endpoint| self.take_desired(endpoint)).collect();
            let labels = labels(self.service);
            let is_relabelled = get_path(&slice, &["metadata", "labels"]) != Some(&labels);
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
        if !self.desired.is_empty()
            && let Some(index) = unchanged
                .iter()
                .position(|one| endpoints_in(one) + self.desired.len() <= MAX_ENDPOINTS_PER_SLICE)
        {
            let mut slice = unchanged.swap_remove(index);
            self.top_up(&mut slice);
            self.update.push(slice);
        }
        while !self.desired.is_empty() {
            let mut slice = new();
            self.top_up(&mut slice);
            self.create.push(slice);
        }
    }

    /// Takes the desired state of an existing endpoint.
    fn take_desired(&mut self, present: &Value) -> Option<Value> {
        let is_same = |one: &Value| {
            one.get("addresses") == present.get("addresses")
                && str_at(one, &["hostname"]) == str_at(present, &["hostname"])
                && str_at(one, &["targetRef", "name"]) == str_at(present, &["targetRef", "name"])
        };
        let index = self.desired.iter().position(is_same)?;
        Some(self.desired.remove(index))
    }

    fn top_up(&mut self, slice: &mut Value) {
        let room = MAX_ENDPOINTS_PER_SLICE.saturating_sub(endpoints_in(slice)).min(self.desired.len());
        let more: Vec<Value> = self.desired.drain(..room).collect();
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
