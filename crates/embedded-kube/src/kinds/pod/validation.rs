//! Validates Pods and pod templates.

use serde_json::{Value, json};

use super::containers::{self, Container};
use crate::{
    kinds::common::{has_path, int_at, list_at, map_at, push_invalid, validate_ip_address, validate_labels},
    object::{self, MetaAccessorMut, dns1123_label, dns1123_subdomain, label_key, label_value, str_at},
    status_error::FieldError,
};

const MAX_SECONDS: i64 = 2_147_483_647;

/// Validates a Pod.
pub fn validate_pod(out: &mut Vec<FieldError>, pod: &Value) {
    validate_pod_spec(out, "spec", pod.get("spec").unwrap_or(&Value::Null));
    for key in ["containers", "initContainers"] {
        for (index, container) in list_at(pod, &["spec", key]).iter().enumerate() {
            let image = str_at(container, &["image"]);
            if image.trim() != image {
                let detail = "must not have leading or trailing whitespace";
                out.push(FieldError::invalid(format!("spec.{key}[{index}].image"), image, detail));
            }
        }
    }
}

/// Validates the labels and spec of a pod template.
pub fn validate_pod_template(out: &mut Vec<FieldError>, field: &str, template: &Value) {
    validate_labels(out, &format!("{field}.labels"), map_at(template, &["metadata", "labels"]));
    validate_pod_spec(out, &format!("{field}.spec"), template.get("spec").unwrap_or(&Value::Null));
    if !list_at(template, &["spec", "ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        out.push(FieldError::forbidden(format!("{field}.spec.ephemeralContainers"), detail));
    }
}

fn validate_pod_spec(out: &mut Vec<FieldError>, field: &str, spec: &Value) {
    let volumes = containers::validate_volumes(out, &format!("{field}.volumes"), list_at(spec, &["volumes"]));
    let main = list_at(spec, &["containers"]);
    let path = format!("{field}.containers");
    if main.is_empty() {
        out.push(FieldError::required(&path, ""));
    }
    let mut names = Vec::new();
    for (index, container) in main.iter().enumerate() {
        Container { field: &format!("{path}[{index}]"), value: container, volumes: &volumes }
            .validate(out, &mut names);
    }
    validate_host_ports(out, &path, main);
    let path = format!("{field}.initContainers");
    for (index, container) in list_at(spec, &["initContainers"]).iter().enumerate() {
        Container { field: &format!("{path}[{index}]"), value: container, volumes: &volumes }
            .validate_init(out, &mut names);
    }
    validate_policies(out, field, spec);
    validate_names_and_numbers(out, field, spec);
    for (index, toleration) in list_at(spec, &["tolerations"]).iter().enumerate() {
        validate_toleration(out, &format!("{field}.tolerations[{index}]"), toleration);
    }
    for (index, alias) in list_at(spec, &["hostAliases"]).iter().enumerate() {
        validate_ip_address(out, &format!("{field}.hostAliases[{index}].ip"), str_at(alias, &["ip"]));
    }
    let class = str_at(spec, &["priorityClassName"]);
    if !class.is_empty() {
        push_invalid(out, &format!("{field}.priorityClassName"), class, dns1123_subdomain(class));
    }
}

/// Host ports must be unique within a Pod.
fn validate_host_ports(out: &mut Vec<FieldError>, field: &str, containers: &[Value]) {
    let mut seen = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in list_at(container, &["ports"]).iter().enumerate() {
            let Some(number) = int_at(port, &["hostPort"]).filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{number}", str_at(port, &["protocol"]), str_at(port, &["hostIP"]));
            if seen.contains(&key) {
                let field = format!("{field}[{index}].ports[{port_index}].hostPort");
                out.push(FieldError::duplicate(field, key));
            } else {
                seen.push(key);
            }
        }
    }
}

fn validate_policies(out: &mut Vec<FieldError>, field: &str, spec: &Value) {
    if spec.get("hostNetwork") == Some(&json!(true)) {
        for (index, container) in list_at(spec, &["containers"]).iter().enumerate() {
            for (port_index, port) in list_at(container, &["ports"]).iter().enumerate() {
                let (host, own) = (int_at(port, &["hostPort"]), int_at(port, &["containerPort"]));
                if let Some(host) = host.filter(|host| Some(*host) != own) {
                    let field = format!("{field}.containers[{index}].ports[{port_index}].hostPort");
                    let detail = "must match `containerPort` when `hostNetwork` is true";
                    out.push(FieldError::invalid(field, host, detail));
                }
            }
        }
    }
    validate_enum(
        out,
        &format!("{field}.restartPolicy"),
        str_at(spec, &["restartPolicy"]),
        &["Always", "OnFailure", "Never"],
    );
    let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    validate_enum(out, &format!("{field}.dnsPolicy"), str_at(spec, &["dnsPolicy"]), &known);
    validate_labels(out, &format!("{field}.nodeSelector"), map_at(spec, &["nodeSelector"]));
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        let number = int_at(spec, &["securityContext", key]);
        if let Some(number) = number.filter(|number| !(0..=MAX_SECONDS).contains(number)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            out.push(FieldError::invalid(format!("{field}.securityContext.{key}"), number, detail));
        }
    }
}

/// Validates an enum value.
pub fn validate_enum(out: &mut Vec<FieldError>, field: &str, word: &str, known: &[&str]) {
    if word.is_empty() {
        out.push(FieldError::required(field, ""));
    } else if !known.contains(&word) {
        out.push(FieldError::not_supported(field, word, known));
    }
}

fn validate_names_and_numbers(out: &mut Vec<FieldError>, field: &str, spec: &Value) {
    for key in ["serviceAccountName", "nodeName"] {
        let name = str_at(spec, &[key]);
        if !name.is_empty() {
            push_invalid(out, &format!("{field}.{key}"), name, dns1123_subdomain(name));
        }
    }
    let deadline = int_at(spec, &["activeDeadlineSeconds"]);
    if let Some(seconds) = deadline.filter(|seconds| !(1..=MAX_SECONDS).contains(seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        out.push(FieldError::invalid(format!("{field}.activeDeadlineSeconds"), seconds, detail));
    }
    for key in ["hostname", "subdomain"] {
        let name = str_at(spec, &[key]);
        if !name.is_empty() {
            push_invalid(out, &format!("{field}.{key}"), name, dns1123_label(name));
        }
    }
}

fn validate_toleration(out: &mut Vec<FieldError>, field: &str, toleration: &Value) {
    let word = |key: &str| str_at(toleration, &[key]);
    let (key, operator, value, effect) = (word("key"), word("operator"), word("value"), word("effect"));
    if !key.is_empty() {
        push_invalid(out, &format!("{field}.key"), key, label_key(key));
    }
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        out.push(FieldError::invalid(format!("{field}.operator"), operator, detail));
    }
    if has_path(toleration, &["tolerationSeconds"]) && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        out.push(FieldError::invalid(format!("{field}.effect"), effect, detail));
    }
    match operator {
        "" | "Equal" => {
            let wrong = label_value(value);
            if !wrong.is_empty() {
                out.push(FieldError::invalid(format!("{field}.operator"), value, wrong.join(";")));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let detail = "value must be empty when `operator` is 'Exists'";
                out.push(FieldError::invalid(format!("{field}.operator"), value, detail));
            }
        }
        other => {
            out.push(FieldError::not_supported(format!("{field}.operator"), other, &["Equal", "Exists"]));
        }
    }
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !known.contains(&effect) {
        out.push(FieldError::not_supported(format!("{field}.effect"), effect, &known));
    }
}

const IMMUTABLE_MESSAGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

/// Rejects changes of immutable fields: all but a few.
pub fn validate_pod_update(out: &mut Vec<FieldError>, pod: &Value, old: &Value) {
    for key in ["containers", "initContainers"] {
        let (now, before) = (list_at(pod, &["spec", key]), list_at(old, &["spec", key]));
        if now.len() != before.len() {
            let detail = format!("pod updates may not add or remove {}", "containers");
            out.push(FieldError::forbidden(format!("spec.{key}"), detail));
            return;
        }
    }
    let deadline = |pod: &Value| int_at(pod, &["spec", "activeDeadlineSeconds"]);
    match (deadline(pod), deadline(old)) {
        (Some(now), Some(before)) if before < now => {
            let detail = "must be less than or equal to previous value";
            out.push(FieldError::invalid("spec.activeDeadlineSeconds", now, detail));
            return;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            out.push(FieldError::invalid("spec.activeDeadlineSeconds", Value::Null, detail));
        }
        _ => {}
    }
    let (now, before) = (list_at(pod, &["spec", "tolerations"]), list_at(old, &["spec", "tolerations"]));
    let timeless = |one: &Value| {
        let mut one = one.clone();
        one.drop_field("tolerationSeconds");
        one
    };
    if before.iter().any(|one| !now.iter().any(|other| timeless(one) == timeless(other))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        out.push(FieldError::forbidden("spec.tolerations", detail));
    }
    if with_old_mutable_fields(pod, old) != old.get("spec").cloned() {
        out.push(FieldError::forbidden("spec", IMMUTABLE_MESSAGE));
    }
}

/// The new spec with the old values of the mutable fields.
fn with_old_mutable_fields(pod: &Value, old: &Value) -> Option<Value> {
    let mut spec = pod.get("spec")?.clone();
    let before = old.get("spec")?;
    for key in ["containers", "initContainers"] {
        let images = list_at(before, &[key]).iter().map(|one| one.get("image").cloned().unwrap_or_default());
        let containers = spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.zip(images.collect::<Vec<_>>()) {
            container["image"] = image;
        }
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        crate::kinds::common::copy_from_old(&mut spec, before, key);
    }
    let grace = |spec: &Value| int_at(spec, &["terminationGracePeriodSeconds"]);
    if grace(before).is_some_and(|seconds| seconds < 0) && grace(&spec) == Some(1) {
        crate::kinds::common::copy_from_old(&mut spec, before, "terminationGracePeriodSeconds");
    }
    // The order of keys is irrelevant.
    let same = object::get_path(&spec, &[]) == Some(before);
    Some(if same { before.clone() } else { spec })
}
