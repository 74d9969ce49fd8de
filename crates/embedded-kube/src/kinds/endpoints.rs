//! Endpoints and `EndpointSlice`s.

use serde_json::{Value, json};

use super::{
    columns::{age, endpoint_slice_endpoints, endpoint_slice_ports, endpoints_text, name},
    common::{
        complain, endpoint_address, fill, has, int, ip_address, items_mut, labels, list, map, port_number,
        protocol, subdomain_name, too_many, unchanged,
    },
};
use crate::{
    failure::FieldError,
    object::{MetaMut, dns1123_label, dns1123_subdomain, label_value, qualified_name, text},
    registry::{Part, Rules},
};

pub struct Endpoints;

impl Rules for Endpoints {
    fn default(&self, endpoints: &mut Value) {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    }

    fn check(&self, endpoints: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        for (index, subset) in list(endpoints, &["subsets"]).iter().enumerate() {
            check_subset(&mut out, &format!("subsets[{index}]"), subset);
        }
        out
    }

    fn check_update(&self, _part: Part, endpoints: &Value, old: &Value) -> Vec<FieldError> {
        // What was accepted once may stay.
        if endpoints.get("subsets") == old.get("subsets") { Vec::new() } else { self.check(endpoints) }
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _endpoints: &Value, _old: &Value) -> bool {
        false
    }

    fn deprecation(&self) -> Option<&str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn cells(&self, endpoints: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name(endpoints), endpoints_text(endpoints).into(), age(endpoints, now)])
    }
}

fn check_subset(out: &mut Vec<FieldError>, field: &str, subset: &Value) {
    let addresses = ["addresses", "notReadyAddresses"];
    if addresses.iter().all(|key| list(subset, &[key]).is_empty()) {
        out.push(FieldError::required(field, "must specify `addresses` or `notReadyAddresses`"));
    }
    for key in addresses {
        for (index, address) in list(subset, &[key]).iter().enumerate() {
            check_address(out, &format!("{field}.{key}[{index}]"), address);
        }
    }
    let ports = list(subset, &["ports"]);
    for (index, port) in ports.iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
        match text(port, &["name"]) {
            "" if ports.len() > 1 => out.push(FieldError::required(format!("{field}.name"), "")),
            "" => {}
            name => complain(out, &format!("{field}.name"), name, dns1123_label(name)),
        }
        port_number(out, &format!("{field}.port"), int(port, &["port"]).unwrap_or_default());
        protocol(out, &format!("{field}.protocol"), text(port, &["protocol"]));
        check_app_protocol(out, &field, port);
    }
}

fn check_address(out: &mut Vec<FieldError>, field: &str, address: &Value) {
    let ip = text(address, &["ip"]);
    let field_ip = format!("{field}.ip");
    ip_address(out, &field_ip, ip);
    let hostname = text(address, &["hostname"]);
    if !hostname.is_empty() {
        complain(out, &format!("{field}.hostname"), hostname, dns1123_label(hostname));
    }
    check_node(out, field, address);
    endpoint_address(out, &field_ip, ip);
}

fn check_node(out: &mut Vec<FieldError>, field: &str, endpoint: &Value) {
    if has(endpoint, &["nodeName"]) {
        let node = text(endpoint, &["nodeName"]);
        complain(out, &format!("{field}.nodeName"), node, dns1123_subdomain(node));
    }
}

fn check_app_protocol(out: &mut Vec<FieldError>, field: &str, port: &Value) {
    if has(port, &["appProtocol"]) {
        let protocol = text(port, &["appProtocol"]);
        complain(out, &format!("{field}.appProtocol"), protocol, qualified_name(protocol));
    }
}

pub struct EndpointSlice;

impl Rules for EndpointSlice {
    fn default(&self, slice: &mut Value) {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    }

    fn prepare_create(&self, slice: &mut Value) {
        slice.set_meta("generation", 1);
        empty_to_null(slice);
    }

    fn prepare_update(&self, _part: Part, slice: &mut Value, _old: &Value) {
        empty_to_null(slice);
    }

    fn check(&self, slice: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let kind = text(slice, &["addressType"]);
        match kind {
            "" => out.push(FieldError::required("addressType", "")),
            "IPv4" | "IPv6" | "FQDN" => {}
            other => out.push(FieldError::not_supported("addressType", other, &["FQDN", "IPv4", "IPv6"])),
        }
        check_slice_ports(&mut out, list(slice, &["ports"]));
        let endpoints = list(slice, &["endpoints"]);
        if endpoints.len() > 1000 {
            out.push(too_many("endpoints", endpoints.len(), 1000));
            return out;
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            check_endpoint(&mut out, &format!("endpoints[{index}]"), endpoint, kind);
        }
        out
    }

    fn check_update(&self, _part: Part, slice: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = self.check(slice);
        if slice.get("endpoints") == old.get("endpoints") {
            out.retain(|error| !error.field.starts_with("endpoints"));
        }
        unchanged(&mut out, "addressType", slice.get("addressType"), old.get("addressType"));
        out
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, slice: &Value, old: &Value) -> bool {
        // Labels are content here: they say to which Service it belongs.
        let content = |slice: &Value| {
            let meta = slice.get("metadata").cloned().unwrap_or_default();
            json!([
                slice.get("addressType"),
                slice.get("endpoints"),
                slice.get("ports"),
                meta.get("labels"),
                meta.get("annotations"),
                meta.get("ownerReferences"),
                meta.get("finalizers"),
            ])
        };
        content(slice) != content(old)
    }

    fn cells(&self, slice: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name(slice),
            text(slice, &["addressType"]).into(),
            endpoint_slice_ports(slice).into(),
            endpoint_slice_endpoints(slice).into(),
            age(slice, now),
        ])
    }
}

/// The real store does not tell an empty list from none.
fn empty_to_null(slice: &mut Value) {
    for key in ["endpoints", "ports"] {
        if list(slice, &[key]).is_empty()
            && let Some(map) = slice.as_object_mut()
        {
            map.insert(key.to_owned(), Value::Null);
        }
    }
}

fn check_slice_ports(out: &mut Vec<FieldError>, ports: &[Value]) {
    if ports.len() > 20_000 {
        out.push(too_many("ports", ports.len(), 20_000));
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("ports[{index}]");
        let name = text(port, &["name"]);
        if !name.is_empty() {
            complain(out, &format!("{field}.name"), name, dns1123_label(name));
        }
        if names.contains(&name) {
            out.push(FieldError::duplicate(format!("{field}.name"), name));
        } else {
            names.push(name);
        }
        let kind = text(port, &["protocol"]);
        protocol(out, &format!("{field}.protocol"), kind);
        check_app_protocol(out, &field, port);
    }
}

fn check_endpoint(out: &mut Vec<FieldError>, field: &str, endpoint: &Value, kind: &str) {
    let addresses = list(endpoint, &["addresses"]);
    let path = format!("{field}.addresses");
    if addresses.is_empty() {
        out.push(FieldError::required(&path, "must contain at least 1 address"));
    } else if addresses.len() > 100 {
        out.push(too_many(&path, addresses.len(), 100));
    }
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        check_slice_address(out, &path, index, (address, kind));
    }
    check_node(out, field, endpoint);
    labels(out, &format!("{field}.deprecatedTopology"), map(endpoint, &["deprecatedTopology"]));
    if has(endpoint, &["hostname"]) {
        let hostname = text(endpoint, &["hostname"]);
        complain(out, &format!("{field}.hostname"), hostname, dns1123_label(hostname));
    }
    let zones = list(endpoint, &["hints", "forZones"]);
    for (index, zone) in zones.iter().enumerate() {
        let zone = text(zone, &["name"]);
        complain(out, &format!("{field}.hints.forZones[{index}].name"), zone, label_value(zone));
    }
}

fn check_slice_address(out: &mut Vec<FieldError>, path: &str, index: usize, (address, kind): (&str, &str)) {
    let field = format!("{path}[{index}]");
    match kind {
        "IPv4" | "IPv6" => {
            let Some(parsed) = ip_address(out, &field, address) else { return };
            if parsed.is_ipv4() != (kind == "IPv4") {
                out.push(FieldError::invalid(path, address, format!("must be an {kind} address")));
            }
            endpoint_address(out, &field, address);
        }
        "FQDN" => {
            if address.split('.').count() < 2 {
                let detail = "should be a domain with at least two segments separated by dots";
                out.push(FieldError::invalid(field, address, detail));
            } else {
                complain(out, &field, address, dns1123_subdomain(address));
            }
        }
        _ => {}
    }
}
