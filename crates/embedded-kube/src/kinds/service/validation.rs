//! Faults of Services.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::{has_address, is_checked_by_nodes, is_reachable_from_outside};
use crate::{
    failure::FieldError,
    kinds::common::{
        complain, endpoint_address, has, int, ip_address, labels, list, map, port_number, protocol,
    },
    object::{self, dns1123_label, dns1123_subdomain, qualified_name, text},
};

const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

/// Of a new Service. Addresses are given out first, so that their faults are the only ones told.
pub fn new(service: &Value) -> Vec<FieldError> {
    let spec = spec_of(service);
    let mut out = Vec::new();
    addresses(&mut out, spec);
    if out.is_empty() {
        families(&mut out, spec);
    }
    if out.is_empty() {
        range(&mut out, spec, None);
        node_port_range(&mut out, spec);
    }
    if out.is_empty() {
        main(&mut out, spec);
    }
    out
}

/// Of a changed Service.
pub fn changed(service: &Value, old: &Value) -> Vec<FieldError> {
    let (spec, old) = (spec_of(service), spec_of(old));
    let mut out = Vec::new();
    addresses(&mut out, spec);
    if out.is_empty() {
        families(&mut out, spec);
    }
    if !out.is_empty() {
        return out;
    }
    fixed_addresses(&mut out, spec, old);
    let both = [spec, old].iter().all(|spec| text(spec, &["type"]) == "LoadBalancer");
    if both && spec.get("loadBalancerClass") != old.get("loadBalancerClass") {
        let class = spec.get("loadBalancerClass").cloned().unwrap_or_default();
        out.push(FieldError::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    if is_checked_by_nodes(spec)
        && is_checked_by_nodes(old)
        && spec.get("healthCheckNodePort") != old.get("healthCheckNodePort")
    {
        out.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    main(&mut out, spec);
    if out.is_empty() {
        range(&mut out, spec, Some(old));
        node_port_range(&mut out, spec);
    }
    out
}

fn spec_of(service: &Value) -> &Value {
    service.get("spec").unwrap_or(&Value::Null)
}

fn main(out: &mut Vec<FieldError>, spec: &Value) {
    let ports = list(spec, &["ports"]);
    let headless = text(spec, &["clusterIP"]) == "None";
    let kind = text(spec, &["type"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        out.push(FieldError::required("spec.ports", ""));
    }
    kind_of_address(out, spec, headless);
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        one_port(out, &format!("spec.ports[{index}]"), port, (ports.len() > 1, &mut names));
    }
    labels(out, "spec.selector", map(spec, &["selector"]));
    affinity(out, spec);
    addresses(out, spec);
    for (index, ip) in list(spec, &["externalIPs"]).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.externalIPs[{index}]");
        if ip_address(out, &field, ip).is_some() {
            endpoint_address(out, &field, ip);
        }
    }
    if !matches!(kind, "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort") {
        let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        out.push(FieldError::not_supported("spec.type", kind, &known));
    }
    ports_together(out, ports, kind);
    balancer(out, spec, kind);
    traffic(out, spec, kind);
}

fn kind_of_address(out: &mut Vec<FieldError>, spec: &Value, headless: bool) {
    match text(spec, &["type"]) {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            out.push(FieldError::invalid("spec.clusterIPs[0]", "None", detail));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if has(spec, &[key]) {
                    let detail = "may not be set for ExternalName services";
                    out.push(FieldError::forbidden(format!("spec.{key}"), detail));
                }
            }
            let name = text(spec, &["externalName"]);
            match name.strip_suffix('.').unwrap_or(name) {
                "" => out.push(FieldError::required("spec.externalName", "")),
                name => complain(out, "spec.externalName", name, dns1123_subdomain(name)),
            }
        }
        _ => {}
    }
}

fn one_port<'a>(
    out: &mut Vec<FieldError>,
    field: &str,
    port: &'a Value,
    (several, names): (bool, &mut Vec<&'a str>),
) {
    match text(port, &["name"]) {
        "" if several => out.push(FieldError::required(format!("{field}.name"), "")),
        "" => {}
        name => {
            complain(out, &format!("{field}.name"), name, dns1123_label(name));
            if names.contains(&name) {
                out.push(FieldError::duplicate(format!("{field}.name"), name));
            } else {
                names.push(name);
            }
        }
    }
    port_number(out, &format!("{field}.port"), int(port, &["port"]).unwrap_or_default());
    protocol(out, &format!("{field}.protocol"), text(port, &["protocol"]));
    number_or_name(out, &format!("{field}.targetPort"), port.get("targetPort").unwrap_or(&Value::Null));
    if has(port, &["appProtocol"]) {
        let app = text(port, &["appProtocol"]);
        complain(out, &format!("{field}.appProtocol"), app, qualified_name(app));
    }
}

/// A port as a number, or as the name of a container's port.
pub fn number_or_name(out: &mut Vec<FieldError>, field: &str, port: &Value) {
    match port {
        Value::String(name) => complain(out, field, name, port_name(name)),
        other => port_number(out, field, other.as_i64().unwrap_or_default()),
    }
}

/// Complaints about the name of a container's port.
pub fn port_name(name: &str) -> Vec<String> {
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

fn affinity(out: &mut Vec<FieldError>, spec: &Value) {
    match text(spec, &["sessionAffinity"]) {
        "None" => {}
        "ClientIP" => {
            let seconds = int(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
            if let Some(seconds) = seconds.filter(|seconds| !(1..=86_400).contains(seconds)) {
                let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
                let detail = "must be greater than 0 and less than 86400";
                out.push(FieldError::invalid(field, seconds, detail));
            }
        }
        other => out.push(FieldError::not_supported("spec.sessionAffinity", other, &["ClientIP", "None"])),
    }
}

/// What addresses, families and the policy say about each other.
fn addresses(out: &mut Vec<FieldError>, spec: &Value) {
    const FIELD: &str = "spec.clusterIPs";
    if !has_address(spec) {
        return;
    }
    let all = list(spec, &["clusterIPs"]);
    let shown = || spec.get("clusterIPs").cloned().unwrap_or_default();
    match (text(spec, &["clusterIP"]), all.first().and_then(Value::as_str)) {
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
    for (index, family) in list(spec, &["ipFamilies"]).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        if !matches!(family, "IPv4" | "IPv6") {
            out.push(FieldError::not_supported(&field, family, &["IPv4", "IPv6"]));
        }
        if seen.contains(&family) {
            out.push(FieldError::duplicate(&field, family));
        }
        seen.push(family);
    }
    let policy = text(spec, &["ipFamilyPolicy"]);
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
            ip_address(out, &format!("{FIELD}[{index}]"), ip);
        }
    }
    if all.len() > 2 {
        out.push(FieldError::invalid(FIELD, shown(), "may only hold up to 2 values"));
    }
}

/// One family is all there is.
fn families(out: &mut Vec<FieldError>, spec: &Value) {
    let unselective = text(spec, &["clusterIP"]) == "None" && !has(spec, &["selector"]);
    if !has_address(spec) || unselective {
        return;
    }
    let policy = text(spec, &["ipFamilyPolicy"]);
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        out.push(FieldError::invalid("spec.ipFamilyPolicy", policy, detail));
    }
    for (index, family) in list(spec, &["ipFamilies"]).iter().enumerate().filter(|(_, one)| *one != "IPv4") {
        let field = format!("spec.ipFamilies[{index}]");
        out.push(FieldError::invalid(field, family.clone(), "not configured on this cluster"));
    }
}

fn range(out: &mut Vec<FieldError>, spec: &Value, old: Option<&Value>) {
    let is_old = |ip: &Value| old.is_some_and(|old| list(old, &["clusterIPs"]).contains(ip));
    for ip in list(spec, &["clusterIPs"]).iter().filter(|ip| !is_old(ip)) {
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

fn node_port_range(out: &mut Vec<FieldError>, spec: &Value) {
    for (index, port) in list(spec, &["ports"]).iter().enumerate() {
        let Some(node) = int(port, &["nodePort"]).filter(|node| !(30_000..=32_767).contains(node)) else {
            continue;
        };
        if text(spec, &["type"]) != "ClusterIP" && matches!(text(port, &["protocol"]), "TCP" | "UDP" | "SCTP")
        {
            let field = format!("spec.ports[{index}].nodePort");
            let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            out.push(FieldError::invalid(field, node, detail));
        }
    }
}

fn ports_together(out: &mut Vec<FieldError>, ports: &[Value], kind: &str) {
    let field = |index: usize| format!("spec.ports[{index}]");
    let node = |port: &Value| int(port, &["nodePort"]).filter(|node| *node != 0);
    if kind == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| node(port).is_some()) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            out.push(FieldError::forbidden(format!("{}.nodePort", field(index)), detail));
        }
    }
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let Some(number) = node(port) else { continue };
        let key = (text(port, &["protocol"]), number);
        if seen.contains(&key) {
            out.push(FieldError::duplicate(format!("{}.nodePort", field(index)), number));
        }
        seen.push(key);
    }
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (text(port, &["protocol"]), int(port, &["port"]).unwrap_or_default());
        if seen.contains(&key) {
            let shown = json!({
                "Name": "", "Protocol": key.0, "AppProtocol": null, "Port": key.1, "TargetPort": 0, "NodePort": 0,
            });
            out.push(FieldError::duplicate(field(index), shown));
        }
        seen.push(key);
    }
}

fn balancer(out: &mut Vec<FieldError>, spec: &Value, kind: &str) {
    let is_balancer = kind == "LoadBalancer";
    let ranges = list(spec, &["loadBalancerSourceRanges"]);
    if !ranges.is_empty() && !is_balancer {
        out.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", LOAD_BALANCER_ONLY));
    }
    if has(spec, &["allocateLoadBalancerNodePorts"]) && !is_balancer {
        out.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", LOAD_BALANCER_ONLY));
    }
    if has(spec, &["loadBalancerClass"]) {
        let class = text(spec, &["loadBalancerClass"]);
        if is_balancer {
            complain(out, "spec.loadBalancerClass", class, qualified_name(class));
        } else {
            out.push(FieldError::forbidden("spec.loadBalancerClass", LOAD_BALANCER_ONLY));
        }
    }
}

fn traffic(out: &mut Vec<FieldError>, spec: &Value, kind: &str) {
    let policy = text(spec, &["externalTrafficPolicy"]);
    match (is_reachable_from_outside(spec), policy) {
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
    let port = int(spec, &["healthCheckNodePort"]).unwrap_or_default();
    if !is_checked_by_nodes(spec) && port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        out.push(FieldError::invalid("spec.healthCheckNodePort", port, detail));
    }
    let internal = object::at(spec, &["internalTrafficPolicy"]).and_then(Value::as_str);
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
    let distribution = object::at(spec, &["trafficDistribution"]).and_then(Value::as_str);
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(other) = distribution.filter(|one| !known.contains(one)) {
        out.push(FieldError::not_supported("spec.trafficDistribution", other, &known));
    }
}

fn fixed_addresses(out: &mut Vec<FieldError>, spec: &Value, old: &Value) {
    let headless = |spec: &Value| text(spec, &["clusterIP"]) == "None";
    if !has_address(spec) || !has_address(old) || (headless(spec) && headless(old)) {
        return;
    }
    let (now, before) = (list(spec, &["clusterIPs"]), list(old, &["clusterIPs"]));
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
