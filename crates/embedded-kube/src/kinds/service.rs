//! Services: defaults, cluster IPs and node ports.

pub mod validation;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    columns::service_cells,
    common::{
        bool_at, copy_from_old, has_path, int_at, items_mut, list_at, restore_other_part, set_default,
        validate_label_name,
    },
};
use crate::{
    object::{self, get_path_mut, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

pub struct ServiceStrategy;

impl ResourceStrategy for ServiceStrategy {
    fn set_defaults(&self, service: &mut Value) {
        let Some(spec) = service.get_mut("spec") else { return };
        set_default(spec, "sessionAffinity", "None");
        match str_at(spec, &["sessionAffinity"]) {
            "None" => drop_key(spec, "sessionAffinityConfig"),
            "ClientIP" if !has_path(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]) => {
                spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
            }
            _ => {}
        }
        set_default(spec, "type", "ClusterIP");
        for port in items_mut(spec, "ports") {
            set_default(port, "protocol", "TCP");
            let number = int_at(port, &["port"]).unwrap_or_default();
            if port.get("targetPort").is_none_or(|target| target == 0 || target == "" || target.is_null()) {
                port["targetPort"] = number.into();
            }
        }
        if is_externally_reachable(spec) {
            set_default(spec, "externalTrafficPolicy", "Cluster");
        }
        let kind = str_at(spec, &["type"]).to_owned();
        if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            set_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            set_default(spec, "allocateLoadBalancerNodePorts", true);
            if let Some(balancer) = object::get_path_mut(service, &["status", "loadBalancer"]) {
                for ingress in items_mut(balancer, "ingress").filter(|one| !str_at(one, &["ip"]).is_empty()) {
                    set_default(ingress, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        drop_key(service, "status");
        if let Some(spec) = service.get_mut("spec") {
            sync_cluster_ips(spec, None);
            allocate(spec, None);
        }
    }

    fn prepare_update(&self, part: ObjectPart, service: &mut Value, old: &Value) {
        restore_other_part(part, service, old);
        if part == ObjectPart::Status {
            return;
        }
        if str_at(service, &["spec", "type"]) != "LoadBalancer"
            && let Some(status) = get_path_mut(service, &["status", "loadBalancer"])
        {
            *status = json!({});
        }
        if let (Some(spec), Some(old)) = (service.get_mut("spec"), old.get("spec")) {
            drop_type_dependent_fields(spec, old);
            sync_cluster_ips(spec, Some(old));
            keep_allocated(spec, old);
            allocate(spec, Some(old));
        }
    }

    fn validate(&self, service: &Value) -> Vec<FieldError> {
        validation::validate_create(service)
    }

    fn validate_update(&self, part: ObjectPart, service: &Value, old: &Value) -> Vec<FieldError> {
        if part == ObjectPart::Status { Vec::new() } else { validation::validate_update(service, old) }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_label_name(name, prefix)
    }

    fn bumps_generation(&self, _service: &Value, _old: &Value) -> bool {
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

/// Has node ports or external addresses.
fn is_externally_reachable(spec: &Value) -> bool {
    has_node_ports(spec)
        || (str_at(spec, &["type"]) == "ClusterIP" && !list_at(spec, &["externalIPs"]).is_empty())
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(str_at(spec, &["type"]), "NodePort" | "LoadBalancer")
}

fn has_cluster_ip(spec: &Value) -> bool {
    str_at(spec, &["type"]) != "ExternalName"
}

fn has_health_check_node_port(spec: &Value) -> bool {
    str_at(spec, &["type"]) == "LoadBalancer" && str_at(spec, &["externalTrafficPolicy"]) == "Local"
}

/// Older clients set only `clusterIP`; `clusterIPs` follows it.
fn sync_cluster_ips(spec: &mut Value, old: Option<&Value>) {
    let address = str_at(spec, &["clusterIP"]).to_owned();
    let all = list_at(spec, &["clusterIPs"]);
    let stale =
        old.is_some_and(|old| str_at(old, &["clusterIP"]) != address && list_at(old, &["clusterIPs"]) == all);
    if !address.is_empty() && (all.is_empty() || stale) {
        spec["clusterIPs"] = json!([address]);
    }
}

/// Drops fields that the new type does not support, unless the update changed them too.
fn drop_type_dependent_fields(spec: &mut Value, old: &Value) {
    if has_cluster_ip(old) && !has_cluster_ip(spec) {
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
    if has_health_check_node_port(old)
        && !has_health_check_node_port(spec)
        && same("healthCheckNodePort", spec)
    {
        drop_key(spec, "healthCheckNodePort");
    }
    if str_at(old, &["type"]) == "LoadBalancer" && str_at(spec, &["type"]) != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(key, spec) {
                drop_key(spec, key);
            }
        }
    }
    if is_externally_reachable(old) && !is_externally_reachable(spec) && same("externalTrafficPolicy", spec) {
        drop_key(spec, "externalTrafficPolicy");
    }
}

fn node_ports(spec: &Value) -> Vec<i64> {
    list_at(spec, &["ports"]).iter().filter_map(|port| int_at(port, &["nodePort"])).collect()
}

/// Keeps allocated values that the client omits.
fn keep_allocated(spec: &mut Value, old: &Value) {
    if has_cluster_ip(old) && has_cluster_ip(spec) {
        for key in ["clusterIP", "clusterIPs"] {
            if !has_path(spec, &[key]) {
                copy_from_old(spec, old, key);
            }
        }
    }
    if has_node_ports(old) && has_node_ports(spec) {
        let given = node_ports(spec);
        for port in items_mut(spec, "ports").filter(|port| int_at(port, &["nodePort"]).is_none()) {
            let name = str_at(port, &["name"]);
            let before = list_at(old, &["ports"]).iter().find(|one| str_at(one, &["name"]) == name);
            let number = before.and_then(|before| int_at(before, &["nodePort"]));
            if let Some(number) = number.filter(|number| !given.contains(number)) {
                port["nodePort"] = number.into();
            }
        }
    }
    if has_health_check_node_port(old)
        && has_health_check_node_port(spec)
        && !has_path(spec, &["healthCheckNodePort"])
    {
        copy_from_old(spec, old, "healthCheckNodePort");
    }
}

/// Allocates IP families, a cluster IP and node ports that are missing.
fn allocate(spec: &mut Value, old: Option<&Value>) {
    if !has_cluster_ip(spec) {
        drop_key(spec, "internalTrafficPolicy");
    }
    if has_cluster_ip(spec) {
        let unselective = str_at(spec, &["clusterIP"]) == "None" && !has_path(spec, &["selector"]);
        let before = old.map(|old| str_at(old, &["ipFamilyPolicy"])).filter(|policy| !policy.is_empty());
        let policy = before.unwrap_or(if unselective { "RequireDualStack" } else { "SingleStack" });
        set_default(spec, "ipFamilyPolicy", policy);
        set_default(spec, "ipFamilies", json!(["IPv4"]));
        // Without a selector the endpoints are unknown, so both families are allowed.
        if unselective
            && str_at(spec, &["ipFamilyPolicy"]) != "SingleStack"
            && list_at(spec, &["ipFamilies"]).len() == 1
        {
            let both = if list_at(spec, &["ipFamilies"]).first() == Some(&json!("IPv4")) {
                json!(["IPv4", "IPv6"])
            } else {
                json!(["IPv6", "IPv4"])
            };
            spec["ipFamilies"] = both;
        }
        if !has_path(spec, &["clusterIP"]) && !has_path(spec, &["clusterIPs"]) {
            let address = random_cluster_ip();
            spec["clusterIPs"] = json!([&address]);
            spec["clusterIP"] = address.into();
        }
    }
    let wants_ports = str_at(spec, &["type"]) == "NodePort"
        || (str_at(spec, &["type"]) == "LoadBalancer" && bool_at(spec, &["allocateLoadBalancerNodePorts"]));
    if wants_ports {
        allocate_node_ports(spec);
    }
    if has_health_check_node_port(spec) && !has_path(spec, &["healthCheckNodePort"]) {
        let taken = node_ports(spec);
        spec["healthCheckNodePort"] = free_node_port(&taken).into();
    }
}

/// Ports with the same number and name share a node port if only their protocols differ.
fn allocate_node_ports(spec: &mut Value) {
    let mut taken = node_ports(spec);
    let mut shared: Vec<(i64, String, i64)> = Vec::new();
    for port in items_mut(spec, "ports") {
        let number = int_at(port, &["port"]).unwrap_or_default();
        let protocol = str_at(port, &["protocol"]).to_owned();
        let node = int_at(port, &["nodePort"]).unwrap_or_else(|| {
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

/// In 10.96.0.0/16; the first 256 addresses are left for explicit requests.
fn random_cluster_ip() -> String {
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
