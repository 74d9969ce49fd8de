//! Faults of Pods and of the templates of Pods.

use serde_json::{Value, json};

use super::containers::{self, Container};
use crate::{
    failure::FieldError,
    kinds::common::{complain, has, int, ip_address, labels, list, map},
    object::{self, MetaMut, dns1123_label, dns1123_subdomain, label_key, label_value, text},
};

const MOST_SECONDS: i64 = 2_147_483_647;

/// A Pod as a whole.
pub fn pod(out: &mut Vec<FieldError>, pod: &Value) {
    spec(out, "spec", pod.get("spec").unwrap_or(&Value::Null));
    for key in ["containers", "initContainers"] {
        for (index, container) in list(pod, &["spec", key]).iter().enumerate() {
            let image = text(container, &["image"]);
            if image.trim() != image {
                let detail = "must not have leading or trailing whitespace";
                out.push(FieldError::invalid(format!("spec.{key}[{index}].image"), image, detail));
            }
        }
    }
}

/// A template of Pods: its labels and its spec.
pub fn template(out: &mut Vec<FieldError>, field: &str, template: &Value) {
    labels(out, &format!("{field}.labels"), map(template, &["metadata", "labels"]));
    spec(out, &format!("{field}.spec"), template.get("spec").unwrap_or(&Value::Null));
    if !list(template, &["spec", "ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        out.push(FieldError::forbidden(format!("{field}.spec.ephemeralContainers"), detail));
    }
}

fn spec(out: &mut Vec<FieldError>, field: &str, spec: &Value) {
    let volumes = containers::volumes(out, &format!("{field}.volumes"), list(spec, &["volumes"]));
    let main = list(spec, &["containers"]);
    let path = format!("{field}.containers");
    if main.is_empty() {
        out.push(FieldError::required(&path, ""));
    }
    let mut names = Vec::new();
    for (index, container) in main.iter().enumerate() {
        Container { field: &format!("{path}[{index}]"), value: container, volumes: &volumes }
            .check(out, &mut names);
    }
    host_ports(out, &path, main);
    let path = format!("{field}.initContainers");
    for (index, container) in list(spec, &["initContainers"]).iter().enumerate() {
        Container { field: &format!("{path}[{index}]"), value: container, volumes: &volumes }
            .check_init(out, &mut names);
    }
    policies(out, field, spec);
    names_and_numbers(out, field, spec);
    for (index, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        check_toleration(out, &format!("{field}.tolerations[{index}]"), toleration);
    }
    for (index, alias) in list(spec, &["hostAliases"]).iter().enumerate() {
        ip_address(out, &format!("{field}.hostAliases[{index}].ip"), text(alias, &["ip"]));
    }
    let class = text(spec, &["priorityClassName"]);
    if !class.is_empty() {
        complain(out, &format!("{field}.priorityClassName"), class, dns1123_subdomain(class));
    }
}

/// Two containers cannot have the same port of the node.
fn host_ports(out: &mut Vec<FieldError>, field: &str, containers: &[Value]) {
    let mut seen = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in list(container, &["ports"]).iter().enumerate() {
            let Some(number) = int(port, &["hostPort"]).filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{number}", text(port, &["protocol"]), text(port, &["hostIP"]));
            if seen.contains(&key) {
                let field = format!("{field}[{index}].ports[{port_index}].hostPort");
                out.push(FieldError::duplicate(field, key));
            } else {
                seen.push(key);
            }
        }
    }
}

fn policies(out: &mut Vec<FieldError>, field: &str, spec: &Value) {
    if spec.get("hostNetwork") == Some(&json!(true)) {
        for (index, container) in list(spec, &["containers"]).iter().enumerate() {
            for (port_index, port) in list(container, &["ports"]).iter().enumerate() {
                let (host, own) = (int(port, &["hostPort"]), int(port, &["containerPort"]));
                if let Some(host) = host.filter(|host| Some(*host) != own) {
                    let field = format!("{field}.containers[{index}].ports[{port_index}].hostPort");
                    let detail = "must match `containerPort` when `hostNetwork` is true";
                    out.push(FieldError::invalid(field, host, detail));
                }
            }
        }
    }
    one_of(
        out,
        &format!("{field}.restartPolicy"),
        text(spec, &["restartPolicy"]),
        &["Always", "OnFailure", "Never"],
    );
    let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(out, &format!("{field}.dnsPolicy"), text(spec, &["dnsPolicy"]), &known);
    labels(out, &format!("{field}.nodeSelector"), map(spec, &["nodeSelector"]));
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        let number = int(spec, &["securityContext", key]);
        if let Some(number) = number.filter(|number| !(0..=MOST_SECONDS).contains(number)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            out.push(FieldError::invalid(format!("{field}.securityContext.{key}"), number, detail));
        }
    }
}

/// A word of a few.
pub fn one_of(out: &mut Vec<FieldError>, field: &str, word: &str, known: &[&str]) {
    if word.is_empty() {
        out.push(FieldError::required(field, ""));
    } else if !known.contains(&word) {
        out.push(FieldError::not_supported(field, word, known));
    }
}

fn names_and_numbers(out: &mut Vec<FieldError>, field: &str, spec: &Value) {
    for key in ["serviceAccountName", "nodeName"] {
        let name = text(spec, &[key]);
        if !name.is_empty() {
            complain(out, &format!("{field}.{key}"), name, dns1123_subdomain(name));
        }
    }
    let deadline = int(spec, &["activeDeadlineSeconds"]);
    if let Some(seconds) = deadline.filter(|seconds| !(1..=MOST_SECONDS).contains(seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        out.push(FieldError::invalid(format!("{field}.activeDeadlineSeconds"), seconds, detail));
    }
    for key in ["hostname", "subdomain"] {
        let name = text(spec, &[key]);
        if !name.is_empty() {
            complain(out, &format!("{field}.{key}"), name, dns1123_label(name));
        }
    }
}

fn check_toleration(out: &mut Vec<FieldError>, field: &str, toleration: &Value) {
    let word = |key: &str| text(toleration, &[key]);
    let (key, operator, value, effect) = (word("key"), word("operator"), word("value"), word("effect"));
    if !key.is_empty() {
        complain(out, &format!("{field}.key"), key, label_key(key));
    }
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        out.push(FieldError::invalid(format!("{field}.operator"), operator, detail));
    }
    if has(toleration, &["tolerationSeconds"]) && effect != "NoExecute" {
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

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

/// What a change may not touch: all but a few fields.
pub fn changes(out: &mut Vec<FieldError>, pod: &Value, old: &Value) {
    for key in ["containers", "initContainers"] {
        let (now, before) = (list(pod, &["spec", key]), list(old, &["spec", key]));
        if now.len() != before.len() {
            let detail = format!("pod updates may not add or remove {}", "containers");
            out.push(FieldError::forbidden(format!("spec.{key}"), detail));
            return;
        }
    }
    let deadline = |pod: &Value| int(pod, &["spec", "activeDeadlineSeconds"]);
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
    let (now, before) = (list(pod, &["spec", "tolerations"]), list(old, &["spec", "tolerations"]));
    let timeless = |one: &Value| {
        let mut one = one.clone();
        one.drop_field("tolerationSeconds");
        one
    };
    if before.iter().any(|one| !now.iter().any(|other| timeless(one) == timeless(other))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        out.push(FieldError::forbidden("spec.tolerations", detail));
    }
    if without_changeable(pod, old) != old.get("spec").cloned() {
        out.push(FieldError::forbidden("spec", CHANGEABLE));
    }
}

/// The new spec with the old one's changeable fields.
fn without_changeable(pod: &Value, old: &Value) -> Option<Value> {
    let mut spec = pod.get("spec")?.clone();
    let before = old.get("spec")?;
    for key in ["containers", "initContainers"] {
        let images = list(before, &[key]).iter().map(|one| one.get("image").cloned().unwrap_or_default());
        let containers = spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.zip(images.collect::<Vec<_>>()) {
            container["image"] = image;
        }
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        crate::kinds::common::keep(&mut spec, before, key);
    }
    let grace = |spec: &Value| int(spec, &["terminationGracePeriodSeconds"]);
    if grace(before).is_some_and(|seconds| seconds < 0) && grace(&spec) == Some(1) {
        crate::kinds::common::keep(&mut spec, before, "terminationGracePeriodSeconds");
    }
    // Order is no difference.
    let same = object::at(&spec, &[]) == Some(before);
    Some(if same { before.clone() } else { spec })
}
