//! Endpoints and `EndpointSlice`s.

use serde_json::{Value, json};

use super::{
    columns::{age_cell, endpoint_slice_endpoints, endpoint_slice_ports, endpoints_text, name_cell},
    common::{
        has_path, int_at, items_mut, list_at, map_at, push_invalid, set_default, too_many,
        validate_endpoint_address, validate_immutable, validate_ip_address, validate_labels,
        validate_port_number, validate_protocol, validate_subdomain_name,
    },
};
use crate::{
    object::{MetaAccessorMut, dns1123_label, dns1123_subdomain, label_value, qualified_name, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

pub struct EndpointsStrategy;

impl ResourceStrategy for EndpointsStrategy {
    fn set_defaults(&self, endpoints: &mut Value) {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                set_default(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, endpoints: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        for (index, subset) in list_at(endpoints, &["subsets"]).iter().enumerate() {
            validate_subset(&mut out, &format!("subsets[{index}]"), subset);
        }
        out
    }

    fn validate_update(&self, _part: ObjectPart, endpoints: &Value, old: &Value) -> Vec<FieldError> {
        // Existing subsets are not validated again.
        if endpoints.get("subsets") == old.get("subsets") { Vec::new() } else { self.validate(endpoints) }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, _endpoints: &Value, _old: &Value) -> bool {
        false
    }

    fn deprecation_warning(&self) -> Option<&str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn cells(&self, endpoints: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(endpoints), endpoints_text(endpoints).into(), age_cell(endpoints, now)])
    }
}

fn validate_subset(out: &mut Vec<FieldError>, field: &str, subset: &Value) {
    let addresses = ["addresses", "notReadyAddresses"];
    if addresses.iter().all(|key| list_at(subset, &[key]).is_empty()) {
        out.push(FieldError::required(field, "must specify `addresses` or `notReadyAddresses`"));
    }
    for key in addresses {
        for (index, address) in list_at(subset, &[key]).iter().enumerate() {
            validate_address(out, &format!("{field}.{key}[{index}]"), address);
        }
    }
    let ports = list_at(subset, &["ports"]);
    for (index, port) in ports.iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
        match str_at(port, &["name"]) {
            "" if ports.len() > 1 => out.push(FieldError::required(format!("{field}.name"), "")),
            "" => {}
            name => push_invalid(out, &format!("{field}.name"), name, dns1123_label(name)),
        }
        validate_port_number(out, &format!("{field}.port"), int_at(port, &["port"]).unwrap_or_default());
        validate_protocol(out, &format!("{field}.protocol"), str_at(port, &["protocol"]));
        validate_app_protocol(out, &field, port);
    }
}

fn validate_address(out: &mut Vec<FieldError>, field: &str, address: &Value) {
    let ip = str_at(address, &["ip"]);
    let field_ip = format!("{field}.ip");
    validate_ip_address(out, &field_ip, ip);
    let hostname = str_at(address, &["hostname"]);
    if !hostname.is_empty() {
        push_invalid(out, &format!("{field}.hostname"), hostname, dns1123_label(hostname));
    }
    validate_node_name(out, field, address);
    validate_endpoint_address(out, &field_ip, ip);
}

fn validate_node_name(out: &mut Vec<FieldError>, field: &str, endpoint: &Value) {
    if has_path(endpoint, &["nodeName"]) {
        let node = str_at(endpoint, &["nodeName"]);
        push_invalid(out, &format!("{field}.nodeName"), node, dns1123_subdomain(node));
    }
}

fn validate_app_protocol(out: &mut Vec<FieldError>, field: &str, port: &Value) {
    if has_path(port, &["appProtocol"]) {
        let protocol = str_at(port, &["appProtocol"]);
        push_invalid(out, &format!("{field}.appProtocol"), protocol, qualified_name(protocol));
    }
}

pub struct EndpointSliceStrategy;

impl ResourceStrategy for EndpointSliceStrategy {
    fn set_defaults(&self, slice: &mut Value) {
        for port in items_mut(slice, "ports") {
            set_default(port, "name", "");
            set_default(port, "protocol", "TCP");
        }
    }

    fn prepare_create(&self, slice: &mut Value) {
        slice.set_meta("generation", 1);
        empty_to_null(slice);
    }

    fn prepare_update(&self, _part: ObjectPart, slice: &mut Value, _old: &Value) {
        empty_to_null(slice);
    }

    fn validate(&self, slice: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let kind = str_at(slice, &["addressType"]);
        match kind {
            "" => out.push(FieldError::required("addressType", "")),
            "IPv4" | "IPv6" | "FQDN" => {}
            other => out.push(FieldError::not_supported("addressType", other, &["FQDN", "IPv4", "IPv6"])),
        }
        validate_slice_ports(&mut out, list_at(slice, &["ports"]));
        let endpoints = list_at(slice, &["endpoints"]);
        if endpoints.len() > 1000 {
            out.push(too_many("endpoints", endpoints.len(), 1000));
            return out;
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            validate_endpoint(&mut out, &format!("endpoints[{index}]"), endpoint, kind);
        }
        out
    }

    fn validate_update(&self, _part: ObjectPart, slice: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = self.validate(slice);
        if slice.get("endpoints") == old.get("endpoints") {
            out.retain(|error| !error.field.starts_with("endpoints"));
        }
        validate_immutable(&mut out, "addressType", slice.get("addressType"), old.get("addressType"));
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, slice: &Value, old: &Value) -> bool {
        // Labels count as content: they name the Service.
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
            name_cell(slice),
            str_at(slice, &["addressType"]).into(),
            endpoint_slice_ports(slice).into(),
            endpoint_slice_endpoints(slice).into(),
            age_cell(slice, now),
        ])
    }
}

/// kube-apiserver's storage does not distinguish an empty list from none.
fn empty_to_null(slice: &mut Value) {
    for key in ["endpoints", "ports"] {
        if list_at(slice, &[key]).is_empty()
            && let Some(map) = slice.as_object_mut()
        {
            map.insert(key.to_owned(), Value::Null);
        }
    }
}

fn validate_slice_ports(out: &mut Vec<FieldError>, ports: &[Value]) {
    if ports.len() > 20_000 {
        out.push(too_many("ports", ports.len(), 20_000));
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("ports[{index}]");
        let name = str_at(port, &["name"]);
        if !name.is_empty() {
            push_invalid(out, &format!("{field}.name"), name, dns1123_label(name));
        }
        if names.contains(&name) {
            out.push(FieldError::duplicate(format!("{field}.name"), name));
        } else {
            names.push(name);
        }
        let kind = str_at(port, &["protocol"]);
        validate_protocol(out, &format!("{field}.protocol"), kind);
        validate_app_protocol(out, &field, port);
    }
}

fn validate_endpoint(out: &mut Vec<FieldError>, field: &str, endpoint: &Value, kind: &str) {
    let addresses = list_at(endpoint, &["addresses"]);
    let path = format!("{field}.addresses");
    if addresses.is_empty() {
        out.push(FieldError::required(&path, "must contain at least 1 address"));
    } else if addresses.len() > 100 {
        out.push(too_many(&path, addresses.len(), 100));
    }
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        validate_slice_address(out, &path, index, (address, kind));
    }
    validate_node_name(out, field, endpoint);
    validate_labels(out, &format!("{field}.deprecatedTopology"), map_at(endpoint, &["deprecatedTopology"]));
    if has_path(endpoint, &["hostname"]) {
        let hostname = str_at(endpoint, &["hostname"]);
        push_invalid(out, &format!("{field}.hostname"), hostname, dns1123_label(hostname));
    }
    let zones = list_at(endpoint, &["hints", "forZones"]);
    for (index, zone) in zones.iter().enumerate() {
        let zone = str_at(zone, &["name"]);
        push_invalid(out, &format!("{field}.hints.forZones[{index}].name"), zone, label_value(zone));
    }
}

fn validate_slice_address(
    out: &mut Vec<FieldError>,
    path: &str,
    index: usize,
    (address, kind): (&str, &str),
) {
    let field = format!("{path}[{index}]");
    match kind {
        "IPv4" | "IPv6" => {
            let Some(parsed) = validate_ip_address(out, &field, address) else { return };
            if parsed.is_ipv4() != (kind == "IPv4") {
                out.push(FieldError::invalid(path, address, format!("must be an {kind} address")));
            }
            validate_endpoint_address(out, &field, address);
        }
        "FQDN" => {
            if address.split('.').count() < 2 {
                let detail = "should be a domain with at least two segments separated by dots";
                out.push(FieldError::invalid(field, address, detail));
            } else {
                push_invalid(out, &field, address, dns1123_subdomain(address));
            }
        }
        _ => {}
    }
}
