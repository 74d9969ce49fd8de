//! What a service makes of a pod: whether it counts, its addresses and its ports. No I/O.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::pods::is_terminal;
use crate::object::{Meta, at, text};

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `IPv4`.
    V4,
    /// `IPv6`.
    V6,
}

impl Family {
    /// As services and slices name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn of(address: &str) -> Option<Self> {
        address.parse::<IpAddr>().ok().map(|ip| if ip.is_ipv6() { Self::V6 } else { Self::V4 })
    }
}

/// Families of a service, the first being the one that plain endpoints have.
pub fn families(service: &Value) -> Vec<Family> {
    let named = at(service, &["spec", "ipFamilies"]).and_then(Value::as_array);
    let named: Vec<Family> = named
        .into_iter()
        .flatten()
        .map(|family| if family.as_str() == Some("IPv6") { Family::V6 } else { Family::V4 })
        .collect();
    if !named.is_empty() {
        return named;
    }
    match text(service, &["spec", "clusterIP"]) {
        "" | "None" => vec![Family::V4, Family::V6],
        address => vec![Family::of(address).unwrap_or(Family::V4)],
    }
}

/// Has no address of its own: clients get those of the pods.
pub fn is_headless(service: &Value) -> bool {
    matches!(text(service, &["spec", "clusterIP"]), "" | "None")
}

/// Pods count before they serve.
pub fn publishes_all(service: &Value) -> bool {
    at(service, &["spec", "publishNotReadyAddresses"]) == Some(&Value::Bool(true))
}

/// Has an address and has not run to its end.
pub fn counts(pod: &Value, with_terminating: bool) -> bool {
    let has_address = !text(pod, &["status", "podIP"]).is_empty()
        || at(pod, &["status", "podIPs"]).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    !is_terminal(pod) && has_address && (with_terminating || !pod.is_terminating())
}

/// Its addresses of one family.
pub fn addresses(pod: &Value, family: Family) -> Vec<String> {
    let all = at(pod, &["status", "podIPs"]).and_then(Value::as_array);
    let all = all.into_iter().flatten().map(|one| text(one, &["ip"]));
    all.filter(|ip| Family::of(ip) == Some(family)).map(str::to_owned).collect()
}

/// Its host name, if the service gives it one.
pub fn hostname<'a>(pod: &'a Value, service: &Value) -> Option<&'a str> {
    let hostname = text(pod, &["spec", "hostname"]);
    let is_named = !hostname.is_empty() && text(pod, &["spec", "subdomain"]) == service.name();
    is_named.then_some(hostname)
}

/// A reference to it.
pub fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

/// The ports of a service at a pod; those that the pod does not have are left out.
pub fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let wished = at(service, &["spec", "ports"]).and_then(Value::as_array);
    let wished = wished.into_iter().flatten();
    wished
        .filter_map(|port| {
            let mut found = json!({
                "name": text(port, &["name"]), "port": number_of(port, pod)?, "protocol": protocol(port),
            });
            if let Some(application) = port.get("appProtocol") {
                found["appProtocol"] = application.clone();
            }
            Some(found)
        })
        .collect()
}

fn protocol(port: &Value) -> &str {
    match text(port, &["protocol"]) {
        "" => "TCP",
        named => named,
    }
}

fn number_of(port: &Value, pod: &Value) -> Option<i64> {
    let target = port.get("targetPort").or_else(|| port.get("port"))?;
    let Some(name) = target.as_str() else { return target.as_i64() };
    let containers = |key: &str| at(pod, &["spec", key]).and_then(Value::as_array).into_iter().flatten();
    let sidecars = containers("initContainers").filter(|one| text(one, &["restartPolicy"]) == "Always");
    let all = containers("containers").chain(sidecars);
    let mut ports = all.filter_map(|container| container.get("ports")?.as_array()).flatten();
    let found = ports.find(|one| text(one, &["name"]) == name && protocol(one) == protocol(port))?;
    found.get("containerPort")?.as_i64()
}

/// When the change happened that a write is the answer to.
#[derive(Debug, Default)]
pub struct Triggers {
    known: HashMap<(String, String), BTreeMap<String, Timestamp>>,
}

impl Triggers {
    /// The earliest change since the last look; of a new service, its creation.
    pub fn look(&mut self, service: &Value, pods: &[Value]) -> Option<Timestamp> {
        let times: BTreeMap<String, Timestamp> = pods
            .iter()
            .filter_map(|pod| {
                let conditions = at(pod, &["status", "conditions"])?.as_array()?;
                let ready = conditions.iter().find(|one| text(one, &["type"]) == "Ready")?;
                Some((pod.name().to_owned(), text(ready, &["lastTransitionTime"]).parse().ok()?))
            })
            .collect();
        let key = (service.namespace().to_owned(), service.name().to_owned());
        let created = service.meta("creationTimestamp").parse().ok();
        match self.known.insert(key, times.clone()) {
            None => created,
            Some(before) => {
                let is_news =
                    |(pod, time): &(&String, &Timestamp)| before.get(*pod).is_none_or(|old| *time > old);
                times.iter().filter(is_news).map(|(_, time)| *time).min()
            }
        }
    }

    /// The service is gone.
    pub fn forget(&mut self, key: &(String, String)) {
        self.known.remove(key);
    }
}
