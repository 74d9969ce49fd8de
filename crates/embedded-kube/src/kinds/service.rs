//! Services: defaults, addresses and node ports.

pub mod check;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    columns::service_cells,
    common::{fill, flag, has, int, items_mut, keep, keep_other_part, label_name, list},
};
use crate::{
    failure::FieldError,
    object::{self, at_mut, text},
    registry::{Part, Rules},
};

pub struct Service;

impl Rules for Service {
    fn default(&self, service: &mut Value) {
        let Some(spec) = service.get_mut("spec") else { return };
        fill(spec, "sessionAffinity", "None");
        match text(spec, &["sessionAffinity"]) {
            "None" => drop_key(spec, "sessionAffinityConfig"),
            "ClientIP" if !has(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]) => {
                spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
            }
            _ => {}
        }
        fill(spec, "type", "ClusterIP");
        for port in items_mut(spec, "ports") {
            fill(port, "protocol", "TCP");
            let number = int(port, &["port"]).unwrap_or_default();
            if port.get("targetPort").is_none_or(|target| target == 0 || target == "" || target.is_null()) {
                port["targetPort"] = number.into();
            }
        }
        if is_reachable_from_outside(spec) {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        let kind = text(spec, &["type"]).to_owned();
        if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
            if let Some(balancer) = object::at_mut(service, &["status", "loadBalancer"]) {
                for ingress in items_mut(balancer, "ingress").filter(|one| !text(one, &["ip"]).is_empty()) {
                    fill(ingress, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        drop_key(service, "status");
        if let Some(spec) = service.get_mut("spec") {
            name_all_addresses(spec, None);
            settle(spec, None);
        }
    }

    fn prepare_update(&self, part: Part, service: &mut Value, old: &Value) {
        keep_other_part(part, service, old);
        if part == Part::Status {
            return;
        }
        if text(service, &["spec", "type"]) != "LoadBalancer"
            && let Some(status) = at_mut(service, &["status", "loadBalancer"])
        {
            *status = json!({});
        }
        if let (Some(spec), Some(old)) = (service.get_mut("spec"), old.get("spec")) {
            drop_what_the_type_forbids(spec, old);
            name_all_addresses(spec, Some(old));
            carry_over(spec, old);
            settle(spec, Some(old));
        }
    }

    fn check(&self, service: &Value) -> Vec<FieldError> {
        check::new(service)
    }

    fn check_update(&self, part: Part, service: &Value, old: &Value) -> Vec<FieldError> {
        if part == Part::Status { Vec::new() } else { check::changed(service, old) }
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        label_name(name, prefix)
    }

    fn is_new_generation(&self, _service: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, service: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(service_cells(service, now))
    }
}

fn drop_key(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.shift_remove(key);
    }
}

/// Has node ports, or addresses outside of the cluster.
fn is_reachable_from_outside(spec: &Value) -> bool {
    has_node_ports(spec) || (text(spec, &["type"]) == "ClusterIP" && !list(spec, &["externalIPs"]).is_empty())
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(text(spec, &["type"]), "NodePort" | "LoadBalancer")
}

fn has_address(spec: &Value) -> bool {
    text(spec, &["type"]) != "ExternalName"
}

fn is_checked_by_nodes(spec: &Value) -> bool {
    text(spec, &["type"]) == "LoadBalancer" && text(spec, &["externalTrafficPolicy"]) == "Local"
}

/// Clients that know only the one address mean all of them.
fn name_all_addresses(spec: &mut Value, old: Option<&Value>) {
    let address = text(spec, &["clusterIP"]).to_owned();
    let all = list(spec, &["clusterIPs"]);
    let stale =
        old.is_some_and(|old| text(old, &["clusterIP"]) != address && list(old, &["clusterIPs"]) == all);
    if !address.is_empty() && (all.is_empty() || stale) {
        spec["clusterIPs"] = json!([address]);
    }
}

/// A change of the type takes away what only the old type could have, unless it was changed at the same time.
fn drop_what_the_type_forbids(spec: &mut Value, old: &Value) {
    if has_address(old) && !has_address(spec) {
        let same = |key: &str, spec: &Value| spec.get(key) == old.get(key);
        if same("clusterIP", spec) && same("clusterIPs", spec) {
            drop_key(spec, "clusterIP");
            drop_key(spec, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(key, spec) {
                drop_key(spec, key);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(spec) {
        let known: Vec<i64> = node_ports(old);
        if node_ports(spec).iter().all(|port| known.contains(port)) {
            items_mut(spec, "ports").for_each(|port| drop_key(port, "nodePort"));
        }
    }
    let same = |key: &str, spec: &Value| spec.get(key) == old.get(key);
    if is_checked_by_nodes(old) && !is_checked_by_nodes(spec) && same("healthCheckNodePort", spec) {
        drop_key(spec, "healthCheckNodePort");
    }
    if text(old, &["type"]) == "LoadBalancer" && text(spec, &["type"]) != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(key, spec) {
                drop_key(spec, key);
            }
        }
    }
    if is_reachable_from_outside(old)
        && !is_reachable_from_outside(spec)
        && same("externalTrafficPolicy", spec)
    {
        drop_key(spec, "externalTrafficPolicy");
    }
}

fn node_ports(spec: &Value) -> Vec<i64> {
    list(spec, &["ports"]).iter().filter_map(|port| int(port, &["nodePort"])).collect()
}

/// What was given out once stays, if the client does not mention it.
fn carry_over(spec: &mut Value, old: &Value) {
    if has_address(old) && has_address(spec) {
        for key in ["clusterIP", "clusterIPs"] {
            if !has(spec, &[key]) {
                keep(spec, old, key);
            }
        }
    }
    if has_node_ports(old) && has_node_ports(spec) {
        let given = node_ports(spec);
        for port in items_mut(spec, "ports").filter(|port| int(port, &["nodePort"]).is_none()) {
            let name = text(port, &["name"]);
            let before = list(old, &["ports"]).iter().find(|one| text(one, &["name"]) == name);
            let number = before.and_then(|before| int(before, &["nodePort"]));
            if let Some(number) = number.filter(|number| !given.contains(number)) {
                port["nodePort"] = number.into();
            }
        }
    }
    if is_checked_by_nodes(old) && is_checked_by_nodes(spec) && !has(spec, &["healthCheckNodePort"]) {
        keep(spec, old, "healthCheckNodePort");
    }
}

/// Families, an address and node ports for those that have none.
fn settle(spec: &mut Value, old: Option<&Value>) {
    if !has_address(spec) {
        drop_key(spec, "internalTrafficPolicy");
    }
    if has_address(spec) {
        let unselective = text(spec, &["clusterIP"]) == "None" && !has(spec, &["selector"]);
        let before = old.map(|old| text(old, &["ipFamilyPolicy"])).filter(|policy| !policy.is_empty());
        let policy = before.unwrap_or(if unselective { "RequireDualStack" } else { "SingleStack" });
        fill(spec, "ipFamilyPolicy", policy);
        fill(spec, "ipFamilies", json!(["IPv4"]));
        // Without a selector nothing is known about the endpoints, so that both families may come.
        if unselective
            && text(spec, &["ipFamilyPolicy"]) != "SingleStack"
            && list(spec, &["ipFamilies"]).len() == 1
        {
            let both = if list(spec, &["ipFamilies"]).first() == Some(&json!("IPv4")) {
                json!(["IPv4", "IPv6"])
            } else {
                json!(["IPv6", "IPv4"])
            };
            spec["ipFamilies"] = both;
        }
        if !has(spec, &["clusterIP"]) && !has(spec, &["clusterIPs"]) {
            let address = random_address();
            spec["clusterIPs"] = json!([&address]);
            spec["clusterIP"] = address.into();
        }
    }
    let wants_ports = text(spec, &["type"]) == "NodePort"
        || (text(spec, &["type"]) == "LoadBalancer" && flag(spec, &["allocateLoadBalancerNodePorts"]));
    if wants_ports {
        give_node_ports(spec);
    }
    if is_checked_by_nodes(spec) && !has(spec, &["healthCheckNodePort"]) {
        let taken = node_ports(spec);
        spec["healthCheckNodePort"] = free_node_port(&taken).into();
    }
}

/// Ports of the same number and name share a node port when only their protocols differ.
fn give_node_ports(spec: &mut Value) {
    let mut taken = node_ports(spec);
    let mut shared: Vec<(i64, String, i64)> = Vec::new();
    for port in items_mut(spec, "ports") {
        let number = int(port, &["port"]).unwrap_or_default();
        let protocol = text(port, &["protocol"]).to_owned();
        let node = int(port, &["nodePort"]).unwrap_or_else(|| {
            let twin = shared.iter().find(|(port, other, _)| *port == number && *other != protocol);
            twin.map_or_else(|| free_node_port(&taken), |(_, _, node)| *node)
        });
        taken.push(node);
        shared.push((number, protocol, node));
        port["nodePort"] = node.into();
    }
}

fn random_number() -> u32 {
    let [first, second, third, fourth, ..] = Uuid::new_v4().into_bytes();
    u32::from_be_bytes([first, second, third, fourth])
}

/// In 10.96.0.0/16; the first 256 are left to those who name theirs.
fn random_address() -> String {
    let number = 256 + random_number() % (65_536 - 256 - 1);
    format!("10.96.{}.{}", number / 256, number % 256)
}

fn free_node_port(taken: &[i64]) -> i64 {
    loop {
        let port = 30_000 + i64::from(random_number() % 2768);
        if !taken.contains(&port) {
            return port;
        }
    }
}
