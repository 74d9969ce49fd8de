//! Validates Services.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::{has_cluster_ip, has_health_check_node_port, is_externally_reachable};
use crate::{
    kinds::common::{
        has_path, int_at, list_at, map_at, push_invalid, validate_endpoint_address, validate_ip_address,
        validate_labels, validate_port_number, validate_protocol,
    },
    object::{self, dns1123_label, dns1123_subdomain, qualified_name, str_at},
    status_error::FieldError,
};

const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates a new Service. Addresses are allocated first, so allocation errors are the only ones reported.
pub fn validate_create(service: &Value) -> Vec<FieldError> {
    let spec = spec_of(service);
    let mut out = Vec::new();
    validate_cluster_ips(&mut out, spec);
    if out.is_empty() {
        validate_ip_families(&mut out, spec);
    }
    if out.is_empty() {
        validate_ip_range(&mut out, spec, None);
        validate_node_port_range(&mut out, spec);
    }
    if out.is_empty() {
        validate_spec(&mut out, spec);
    }
    out
}

/// Validates an update.
pub fn validate_update(service: &Value, old: &Value) -> Vec<FieldError> {
    let (spec, old) = (spec_of(service), spec_of(old));
    let mut out = Vec::new();
    validate_cluster_ips(&mut out, spec);
    if out.is_empty() {
        validate_ip_families(&mut out, spec);
    }
    if !out.is_empty() {
        return out;
    }
    validate_immutable_cluster_ip(&mut out, spec, old);
    let both = [spec, old].iter().all(|spec| str_at(spec, &["type"]) == "LoadBalancer");
    if both && spec.get("loadBalancerClass") != old.get("loadBalancerClass") {
        let class = spec.get("loadBalancerClass").cloned().unwrap_or_default();
        out.push(FieldError::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    if has_health_check_node_port(spec)
        && has_health_check_node_port(old)
        && spec.get("healthCheckNodePort") != old.get("healthCheckNodePort")
    {
        out.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    validate_spec(&mut out, spec);
    if out.is_empty() {
        validate_ip_range(&mut out, spec, Some(old));
        validate_node_port_range(&mut out, spec);
    }
    out
}

fn spec_of(service: &Value) -> &Value {
    service.get("spec").unwrap_or(&Value::Null)
}

fn validate_spec(out: &mut Vec<FieldError>, spec: &Value) {
    let ports = list_at(spec, &["ports"]);
    let headless = str_at(spec, &["clusterIP"]) == "None";
    let kind = str_at(spec, &["type"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        out.push(FieldError::required("spec.ports", ""));
    }
    validate_service_type(out, spec, headless);
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        validate_port(out, &format!("spec.ports[{index}]"), port, (ports.len() > 1, &mut names));
    }
    validate_labels(out, "spec.selector", map_at(spec, &["selector"]));
    validate_affinity(out, spec);
    validate_cluster_ips(out, spec);
    for (index, ip) in list_at(spec, &["externalIPs"]).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.externalIPs[{index}]");
        if validate_ip_address(out, &field, ip).is_some() {
            validate_endpoint_address(out, &field, ip);
        }
    }
    if !matches!(kind, "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort") {
        let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        out.push(FieldError::not_supported("spec.type", kind, &known));
    }
    validate_port_conflicts(out, ports, kind);
    validate_load_balancer(out, spec, kind);
    validate_traffic_policies(out, spec, kind);
}

fn validate_service_type(out: &mut Vec<FieldError>, spec: &Value, headless: bool) {
    match str_at(spec, &["type"]) {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            out.push(FieldError::invalid("spec.clusterIPs[0]", "None", detail));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if has_path(spec, &[key]) {
                    let detail = "may not be set for ExternalName services";
                    out.push(FieldError::forbidden(format!("spec.{key}"), detail));
                }
            }
            let name = str_at(spec, &["externalName"]);
            match name.strip_suffix('.').unwrap_or(name) {
                "" => out.push(FieldError::required("spec.externalName", "")),
                name => push_invalid(out, "spec.externalName", name, dns1123_subdomain(name)),
            }
        }
        _ => {}
    }
}

fn validate_port<'a>(
    out: &mut Vec<FieldError>,
    field: &str,
    port: &'a Value,
    (several, names): (bool, &mut Vec<&'a str>),
) {
    match str_at(port, &["name"]) {
        "" if several => out.push(FieldError::required(format!("{field}.name"), "")),
        "" => {}
        name => {
            push_invalid(out, &format!("{field}.name"), name, dns1123_label(name));
            if names.contains(&name) {
                out.push(FieldError::duplicate(format!("{field}.name"), name));
            } else {
                names.push(name);
            }
        }
    }
    validate_port_number(out, &format!("{field}.port"), int_at(port, &["port"]).unwrap_or_default());
    validate_protocol(out, &format!("{field}.protocol"), str_at(port, &["protocol"]));
    validate_target_port(out, &format!("{field}.targetPort"), port.get("targetPort").unwrap_or(&Value::Null));
    if has_path(port, &["appProtocol"]) {
        let app = str_at(port, &["appProtocol"]);
        push_invalid(out, &format!("{field}.appProtocol"), app, qualified_name(app));
    }
}

/// Validates a port number or a named container port.
pub fn validate_target_port(out: &mut Vec<FieldError>, field: &str, port: &Value) {
    match port {
        Value::String(name) => push_invalid(out, field, name, validate_port_name(name)),
        other => validate_port_number(out, field, other.as_i64().unwrap_or_default()),
    }
}

/// Validates the name of a container port.
pub fn validate_port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |text: &str| wrong.push(text.to_owned());
    if name.len() > 15 {
        say("must be no more than 15 characters");
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        || name.is_empty()
    {
        say("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        say("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        say("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        say("must not begin or end with a hyphen");
    }
    wrong
}

fn validate_affinity(out: &mut Vec<FieldError>, spec: &Value) {
    match str_at(spec, &["sessionAffinity"]) {
        "None" => {}
        "ClientIP" => {
            let seconds = int_at(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
            if let Some(seconds) = seconds.filter(|seconds| !(1..=86_400).contains(seconds)) {
                let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
                let detail = "must be greater than 0 and less than 86400";
                out.push(FieldError::invalid(field, seconds, detail));
            }
        }
        other => out.push(FieldError::not_supported("spec.sessionAffinity", other, &["ClientIP", "None"])),
    }
}

/// Checks addresses, families and the policy for consistency.
fn validate_cluster_ips(out: &mut Vec<FieldError>, spec: &Value) {
    const FIELD: &str = "spec.clusterIPs";
    if !has_cluster_ip(spec) {
        return;
    }
    let all = list_at(spec, &["clusterIPs"]);
    let shown = || spec.get("clusterIPs").cloned().unwrap_or_default();
    match (str_at(spec, &["clusterIP"]), all.first().and_then(Value::as_str)) {
        ("", None) => {}
        ("", Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            out.push(FieldError::invalid(FIELD, shown(), detail));
        }
        (_, None) => out.push(FieldError::required(FIELD, "")),
        (one, Some(first)) if one != first => {
            out.push(FieldError::invalid(FIELD, shown(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let mut seen = Vec::new();
    for (index, family) in list_at(spec, &["ipFamilies"]).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        if !matches!(family, "IPv4" | "IPv6") {
            out.push(FieldError::not_supported(&field, family, &["IPv4", "IPv6"]));
        }
        if seen.contains(&family) {
            out.push(FieldError::duplicate(&field, family));
        }
        seen.push(family);
    }
    let policy = str_at(spec, &["ipFamilyPolicy"]);
    if !matches!(policy, "" | "PreferDualStack" | "RequireDualStack" | "SingleStack") {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        out.push(FieldError::not_supported("spec.ipFamilyPolicy", policy, &known));
    }
    for (index, ip) in all.iter().filter_map(Value::as_str).enumerate() {
        if index == 0 && ip == "None" {
            if all.len() > 1 {
                out.push(FieldError::invalid(FIELD, shown(), "'None' must be the first and only value"));
            }
        } else {
            validate_ip_address(out, &format!("{FIELD}[{index}]"), ip);
        }
    }
    if all.len() > 2 {
        out.push(FieldError::invalid(FIELD, shown(), "may only hold up to 2 values"));
    }
}

/// Only one family is supported.
fn validate_ip_families(out: &mut Vec<FieldError>, spec: &Value) {
    let unselective = str_at(spec, &["clusterIP"]) == "None" && !has_path(spec, &["selector"]);
    if !has_cluster_ip(spec) || unselective {
        return;
    }
    let policy = str_at(spec, &["ipFamilyPolicy"]);
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        out.push(FieldError::invalid("spec.ipFamilyPolicy", policy, detail));
    }
    for (index, family) in list_at(spec, &["ipFamilies"]).iter().enumerate().filter(|(_, one)| *one != "IPv4")
    {
        let field = format!("spec.ipFamilies[{index}]");
        out.push(FieldError::invalid(field, family.clone(), "not configured on this cluster"));
    }
}

fn validate_ip_range(out: &mut Vec<FieldError>, spec: &Value, old: Option<&Value>) {
    let is_old = |ip: &Value| old.is_some_and(|old| list_at(old, &["clusterIPs"]).contains(ip));
    for ip in list_at(spec, &["clusterIPs"]).iter().filter(|ip| !is_old(ip)) {
        let ip = ip.as_str().unwrap_or_default();
        let inside = |four: Ipv4Addr| matches!(four.octets(), [10, 96, _, _]);
        if let Ok(address) = ip.parse::<IpAddr>()
            && !matches!(address, IpAddr::V4(four) if inside(four))
        {
            let detail = format!(
                "failed to allocate IP {ip}: the provided IP ({ip}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
            );
            let all = spec.get("clusterIPs").cloned().unwrap_or_default();
            out.push(FieldError::invalid("spec.clusterIPs", all, detail));
        }
    }
}

fn validate_node_port_range(out: &mut Vec<FieldError>, spec: &Value) {
    for (index, port) in list_at(spec, &["ports"]).iter().enumerate() {
        let Some(node) = int_at(port, &["nodePort"]).filter(|node| !(30_000..=32_767).contains(node)) else {
            continue;
        };
        if str_at(spec, &["type"]) != "ClusterIP"
            && matches!(str_at(port, &["protocol"]), "TCP" | "UDP" | "SCTP")
        {
            let field = format!("spec.ports[{index}].nodePort");
            let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            out.push(FieldError::invalid(field, node, detail));
        }
    }
}

fn validate_port_conflicts(out: &mut Vec<FieldError>, ports: &[Value], kind: &str) {
    let field = |index: usize| format!("spec.ports[{index}]");
    let node = |port: &Value| int_at(port, &["nodePort"]).filter(|node| *node != 0);
    if kind == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| node(port).is_some()) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            out.push(FieldError::forbidden(format!("{}.nodePort", field(index)), detail));
        }
    }
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let Some(number) = node(port) else { continue };
        let key = (str_at(port, &["protocol"]), number);
        if seen.contains(&key) {
            out.push(FieldError::duplicate(format!("{}.nodePort", field(index)), number));
        }
        seen.push(key);
    }
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (str_at(port, &["protocol"]), int_at(port, &["port"]).unwrap_or_default());
        if seen.contains(&key) {
            let shown = json!({
                "Name": "", "Protocol": key.0, "AppProtocol": null, "Port": key.1, "TargetPort": 0, "NodePort": 0,
            });
            out.push(FieldError::duplicate(field(index), shown));
        }
        seen.push(key);
    }
}

fn validate_load_balancer(out: &mut Vec<FieldError>, spec: &Value, kind: &str) {
    let is_balancer = kind == "LoadBalancer";
    let ranges = list_at(spec, &["loadBalancerSourceRanges"]);
    if !ranges.is_empty() && !is_balancer {
        out.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", LOAD_BALANCER_ONLY));
    }
    if has_path(spec, &["allocateLoadBalancerNodePorts"]) && !is_balancer {
        out.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", LOAD_BALANCER_ONLY));
    }
    if has_path(spec, &["loadBalancerClass"]) {
        let class = str_at(spec, &["loadBalancerClass"]);
        if is_balancer {
            push_invalid(out, "spec.loadBalancerClass", class, qualified_name(class));
        } else {
            out.push(FieldError::forbidden("spec.loadBalancerClass", LOAD_BALANCER_ONLY));
        }
    }
}

fn validate_traffic_policies(out: &mut Vec<FieldError>, spec: &Value, kind: &str) {
    let policy = str_at(spec, &["externalTrafficPolicy"]);
    match (is_externally_reachable(spec), policy) {
        (false, "") | (true, "Cluster" | "Local") => {}
        (false, policy) => {
            let detail = "may only be set for externally-accessible services";
            out.push(FieldError::invalid("spec.externalTrafficPolicy", policy, detail));
        }
        (true, "") => out.push(FieldError::required("spec.externalTrafficPolicy", "")),
        (true, policy) => {
            let known = ["Cluster", "Local"];
            out.push(FieldError::not_supported("spec.externalTrafficPolicy", policy, &known));
        }
    }
    let port = int_at(spec, &["healthCheckNodePort"]).unwrap_or_default();
    if !has_health_check_node_port(spec) && port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        out.push(FieldError::invalid("spec.healthCheckNodePort", port, detail));
    }
    let internal = object::get_path(spec, &["internalTrafficPolicy"]).and_then(Value::as_str);
    match internal {
        None if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") => {
            out.push(FieldError::required("spec.internalTrafficPolicy", ""));
        }
        None | Some("Cluster" | "Local") => {}
        Some(policy) => {
            let known = ["Cluster", "Local"];
            out.push(FieldError::not_supported("spec.internalTrafficPolicy", policy, &known));
        }
    }
    let distribution = object::get_path(spec, &["trafficDistribution"]).and_then(Value::as_str);
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(other) = distribution.filter(|one| !known.contains(one)) {
        out.push(FieldError::not_supported("spec.trafficDistribution", other, &known));
    }
}

fn validate_immutable_cluster_ip(out: &mut Vec<FieldError>, spec: &Value, old: &Value) {
    let headless = |spec: &Value| str_at(spec, &["clusterIP"]) == "None";
    if !has_cluster_ip(spec) || !has_cluster_ip(old) || (headless(spec) && headless(old)) {
        return;
    }
    let (now, before) = (list_at(spec, &["clusterIPs"]), list_at(old, &["clusterIPs"]));
    let shown = || spec.get("clusterIPs").cloned().unwrap_or_default();
    if now.is_empty() && !before.is_empty() {
        let detail = "primary clusterIP can not be unset";
        out.push(FieldError::invalid("spec.clusterIPs[0]", shown(), detail));
    }
    for (index, _) in now.iter().zip(before).enumerate().filter(|(_, (now, before))| now != before) {
        let field = format!("spec.clusterIPs[{index}]");
        out.push(FieldError::invalid(field, shown(), "may not change once set"));
    }
}
