//! Nodes.

use serde_json::{Value, json};

use super::{
    columns::node_cells,
    common::{list_at, push_invalid, restore_other_part, validate_subdomain_name},
};
use crate::{
    object::{self, get_path_mut, label_key, label_value, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::{FieldError, FieldErrorKind},
};

pub struct NodeStrategy;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl ResourceStrategy for NodeStrategy {
    fn set_defaults(&self, node: &mut Value) {
        let capacity = object::get_path(node, &["status", "capacity"]).cloned();
        if let Some(capacity) = capacity
            && let Some(place) = get_path_mut(node, &["status", "allocatable"])
            && place.is_null()
        {
            *place = capacity;
        }
    }

    fn prepare_create(&self, node: &mut Value) {
        // A new node is tainted until its kubelet reports it ready.
        let is_tainted = list_at(node, &["spec", "taints"])
            .iter()
            .any(|taint| str_at(taint, &["key"]) == NOT_READY && str_at(taint, &["effect"]) == "NoSchedule");
        if !is_tainted && let Some(place) = get_path_mut(node, &["spec", "taints"]) {
            let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
            match place.as_array_mut() {
                Some(taints) => taints.push(taint),
                None => *place = json!([taint]),
            }
        }
    }

    fn prepare_update(&self, part: ObjectPart, node: &mut Value, old: &Value) {
        restore_other_part(part, node, old);
    }

    fn validate(&self, node: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        validate_taints(&mut out, list_at(node, &["spec", "taints"]));
        for (index, cidr) in list_at(node, &["spec", "podCIDRs"]).iter().filter_map(Value::as_str).enumerate()
        {
            if !is_cidr(cidr) {
                let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                out.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), cidr, detail));
            }
        }
        out
    }

    fn validate_update(&self, _part: ObjectPart, node: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let part = |node: &Value, key: &str| object::get_path(node, &["spec", key]).cloned();
        let old_ranges = list_at(old, &["spec", "podCIDRs"]);
        if !old_ranges.is_empty() && old_ranges != list_at(node, &["spec", "podCIDRs"]) {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            out.push(FieldError::forbidden("spec.podCIDRs", detail));
        }
        if part(old, "providerID").is_some() && part(old, "providerID") != part(node, "providerID") {
            let detail = "node updates may not change providerID except from \"\" to valid";
            out.push(FieldError::forbidden("spec.providerID", detail));
        }
        validate_taints(&mut out, list_at(node, &["spec", "taints"]));
        if part(old, "externalID") != part(node, "externalID") {
            out.push(FieldError::forbidden("spec.externalID", "may not be updated"));
        }
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, _node: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, node: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(node_cells(node, now))
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn validate_taints(out: &mut Vec<FieldError>, taints: &[Value]) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        // kube-apiserver uses this field path, too.
        let field = format!("metadata.taints[{index}]");
        let (key, value, effect) =
            (str_at(taint, &["key"]), str_at(taint, &["value"]), str_at(taint, &["effect"]));
        push_invalid(out, &format!("{field}.key"), key, label_key(key));
        let wrong = label_value(value);
        if !wrong.is_empty() {
            out.push(FieldError::invalid(format!("{field}.value"), value, wrong.join(";")));
        }
        match effect {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            "" => out.push(FieldError::required(format!("{field}.effect"), "")),
            other => out.push(FieldError::not_supported(
                format!("{field}.effect"),
                other,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            )),
        }
        if seen.contains(&(key, effect)) {
            let added = taint.get("timeAdded").cloned().unwrap_or_default();
            let shown = json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": added});
            let detail = "taints must be unique by key and effect pair";
            out.push(FieldError::new(FieldErrorKind::Duplicate, field, Some(shown), detail));
        } else {
            seen.push((key, effect));
        }
    }
}
