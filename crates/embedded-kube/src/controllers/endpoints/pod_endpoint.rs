//! Endpoint data of a pod for a Service: eligibility, addresses and ports. No I/O.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::pod_state::is_terminal;
use crate::object::{MetaAccessor, get_path, str_at};

/// IP family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpFamily {
    /// `IPv4`.
    V4,
    /// `IPv6`.
    V6,
}

impl IpFamily {
    /// Name in Services and `EndpointSlices`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn from_address(address: &str) -> Option<Self> {
        address.parse::<IpAddr>().ok().map(|ip| if ip.is_ipv6() { Self::V6 } else { Self::V4 })
    }
}

/// IP families of a Service; Endpoints use the first.
pub fn ip_families(service: &Value) -> Vec<IpFamily> {
    let named = get_path(service, &["spec", "ipFamilies"]).and_then(Value::as_array);
    let named: Vec<IpFamily> = named
        .into_iter()
        .flatten()
        .map(|family| if family.as_str() == Some("IPv6") { IpFamily::V6 } else { IpFamily::V4 })
        .collect();
    if !named.is_empty() {
        return named;
    }
    match str_at(service, &["spec", "clusterIP"]) {
        "" | "None" => vec![IpFamily::V4, IpFamily::V6],
        address => vec![IpFamily::from_address(address).unwrap_or(IpFamily::V4)],
    }
}

/// Whether the Service has no cluster IP, so that clients get pod addresses.
pub fn is_headless(service: &Value) -> bool {
    matches!(str_at(service, &["spec", "clusterIP"]), "" | "None")
}

/// Whether pods that are not ready are published.
pub fn publishes_not_ready(service: &Value) -> bool {
    get_path(service, &["spec", "publishNotReadyAddresses"]) == Some(&Value::Bool(true))
}

/// Whether the pod has an address and is not terminal.
pub fn is_endpoint(pod: &Value, with_terminating: bool) -> bool {
    let has_address = !str_at(pod, &["status", "podIP"]).is_empty()
        || get_path(pod, &["status", "podIPs"])
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty());
    !is_terminal(pod) && has_address && (with_terminating || !pod.is_terminating())
}

/// Addresses of one family.
pub fn addresses(pod: &Value, family: IpFamily) -> Vec<String> {
    let all = get_path(pod, &["status", "podIPs"]).and_then(Value::as_array);
    let all = all.into_iter().flatten().map(|one| str_at(one, &["ip"]));
    all.filter(|ip| IpFamily::from_address(ip) == Some(family)).map(str::to_owned).collect()
}

/// Hostname, if the Service is its subdomain.
pub fn hostname<'a>(pod: &'a Value, service: &Value) -> Option<&'a str> {
    let hostname = str_at(pod, &["spec", "hostname"]);
    let is_named = !hostname.is_empty() && str_at(pod, &["spec", "subdomain"]) == service.name();
    is_named.then_some(hostname)
}

/// Object reference to the pod.
pub fn target_ref(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

/// Ports of a Service on a pod; ports that the pod does not have are omitted.
pub fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let wished = get_path(service, &["spec", "ports"]).and_then(Value::as_array);
    let wished = wished.into_iter().flatten();
    wished
        .filter_map(|port| {
            let mut found = json!({
                "name": str_at(port, &["name"]), "port": target_port_number(port, pod)?, "protocol": protocol(port),
            });
            if let Some(application) = port.get("appProtocol") {
                found["appProtocol"] = application.clone();
            }
            Some(found)
        })
        .collect()
}

fn protocol(port: &Value) -> &str {
    match str_at(port, &["protocol"]) {
        "" => "TCP",
        named => named,
    }
}

fn target_port_number(port: &Value, pod: &Value) -> Option<i64> {
    let target = port.get("targetPort").or_else(|| port.get("port"))?;
    let Some(name) = target.as_str() else { return target.as_i64() };
    let containers =
        |key: &str| get_path(pod, &["spec", key]).and_then(Value::as_array).into_iter().flatten();
    let sidecars = containers("initContainers").filter(|one| str_at(one, &["restartPolicy"]) == "Always");
    let all = containers("containers").chain(sidecars);
    let mut ports = all.filter_map(|container| container.get("ports")?.as_array()).flatten();
    let found = ports.find(|one| str_at(one, &["name"]) == name && protocol(one) == protocol(port))?;
    found.get("containerPort")?.as_i64()
}

/// When the change happened that the next write reflects.
#[derive(Debug, Default)]
pub struct TriggerTimes {
    known: HashMap<(String, String), BTreeMap<String, Timestamp>>,
}

impl TriggerTimes {
    /// The earliest change since the last call; for a new Service its creation time.
    pub fn observe(&mut self, service: &Value, pods: &[Value]) -> Option<Timestamp> {
        let times: BTreeMap<String, Timestamp> = pods
            .iter()
            .filter_map(|pod| {
                let conditions = get_path(pod, &["status", "conditions"])?.as_array()?;
                let ready = conditions.iter().find(|one| str_at(one, &["type"]) == "Ready")?;
                Some((pod.name().to_owned(), str_at(ready, &["lastTransitionTime"]).parse().ok()?))
            })
            .collect();
        let key = (service.namespace().to_owned(), service.name().to_owned());
        let created = service.meta_str("creationTimestamp").parse().ok();
        match self.known.insert(key, times.clone()) {
            None => created,
            Some(before) => {
                let is_news =
                    |(pod, time): &(&String, &Timestamp)| before.get(*pod).is_none_or(|old| *time > old);
                times.iter().filter(is_news).map(|(_, time)| *time).min()
            }
        }
    }

    /// Removes a deleted Service.
    pub fn forget(&mut self, key: &(String, String)) {
        self.known.remove(key);
    }
}
