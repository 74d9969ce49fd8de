//! Nodes.

use serde_json::{Value, json};

use super::{
    columns::node_cells,
    common::{complain, keep_other_part, list, subdomain_name},
};
use crate::{
    failure::{FieldError, FieldErrorKind},
    object::{self, at_mut, label_key, label_value, text},
    registry::{Part, Rules},
};

pub struct Node;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl Rules for Node {
    fn default(&self, node: &mut Value) {
        let capacity = object::at(node, &["status", "capacity"]).cloned();
        if let Some(capacity) = capacity
            && let Some(place) = at_mut(node, &["status", "allocatable"])
            && place.is_null()
        {
            *place = capacity;
        }
    }

    fn prepare_create(&self, node: &mut Value) {
        // A new node takes no pods before its kubelet has said that it is ready.
        let is_tainted = list(node, &["spec", "taints"])
            .iter()
            .any(|taint| text(taint, &["key"]) == NOT_READY && text(taint, &["effect"]) == "NoSchedule");
        if !is_tainted && let Some(place) = at_mut(node, &["spec", "taints"]) {
            let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
            match place.as_array_mut() {
                Some(taints) => taints.push(taint),
                None => *place = json!([taint]),
            }
        }
    }

    fn prepare_update(&self, part: Part, node: &mut Value, old: &Value) {
        keep_other_part(part, node, old);
    }

    fn check(&self, node: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        check_taints(&mut out, list(node, &["spec", "taints"]));
        for (index, cidr) in list(node, &["spec", "podCIDRs"]).iter().filter_map(Value::as_str).enumerate() {
            if !is_cidr(cidr) {
                let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                out.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), cidr, detail));
            }
        }
        out
    }

    fn check_update(&self, _part: Part, node: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let part = |node: &Value, key: &str| object::at(node, &["spec", key]).cloned();
        let old_ranges = list(old, &["spec", "podCIDRs"]);
        if !old_ranges.is_empty() && old_ranges != list(node, &["spec", "podCIDRs"]) {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            out.push(FieldError::forbidden("spec.podCIDRs", detail));
        }
        if part(old, "providerID").is_some() && part(old, "providerID") != part(node, "providerID") {
            let detail = "node updates may not change providerID except from \"\" to valid";
            out.push(FieldError::forbidden("spec.providerID", detail));
        }
        check_taints(&mut out, list(node, &["spec", "taints"]));
        if part(old, "externalID") != part(node, "externalID") {
            out.push(FieldError::forbidden("spec.externalID", "may not be updated"));
        }
        out
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _node: &Value, _old: &Value) -> bool {
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

fn check_taints(out: &mut Vec<FieldError>, taints: &[Value]) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        // The real server looks for them in the metadata, too.
        let field = format!("metadata.taints[{index}]");
        let (key, value, effect) = (text(taint, &["key"]), text(taint, &["value"]), text(taint, &["effect"]));
        complain(out, &format!("{field}.key"), key, label_key(key));
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
