//! Pods, with the changes of kube-apiserver's default admission plugins.

mod containers;
pub mod defaults;
pub mod validation;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    columns::pod_cells,
    common::{
        bool_at, copy_from_old, has_path, items_mut, list_at, push_invalid, set_default, validate_immutable,
        validate_subdomain_name,
    },
};
use crate::{
    object::{self, MetaAccessorMut, get_path_mut, str_at},
    quantity::Quantity,
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

pub struct PodStrategy;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";

impl ResourceStrategy for PodStrategy {
    fn set_defaults(&self, pod: &mut Value) {
        if let Some(spec) = pod.get_mut("spec") {
            defaults::default_pod(spec);
            defaults::default_pod_spec(spec);
        }
    }

    fn prepare_create(&self, pod: &mut Value) {
        pod.set_meta("generation", 1);
        if let Some(spec) = pod.get_mut("spec") {
            add_service_account(spec);
            add_default_tolerations(spec);
            set_default_priority(spec);
        }
        let class = qos_class(pod.get("spec").unwrap_or(&Value::Null));
        if let Some(status) = get_path_mut(pod, &["status"]) {
            *status = json!({"phase": "Pending", "qosClass": class});
        }
    }

    fn prepare_update(&self, part: ObjectPart, pod: &mut Value, old: &Value) {
        if part != ObjectPart::Status {
            copy_from_old(pod, old, "status");
            if let (Some(spec), Some(old)) = (pod.get_mut("spec"), old.get("spec")) {
                add_default_tolerations(spec);
                for key in ["priority", "preemptionPolicy"] {
                    if !has_path(spec, &[key]) {
                        copy_from_old(spec, old, key);
                    }
                }
            }
            return;
        }
        copy_from_old(pod, old, "spec");
        // Old kubelets drop these fields.
        if let (Some(new), Some(old)) = (pod.get_mut("metadata"), old.get("metadata")) {
            copy_from_old(new, old, "ownerReferences");
        }
        let class = str_at(old, &["status", "qosClass"]);
        if !class.is_empty()
            && let Some(status) = get_path_mut(pod, &["status"])
        {
            set_default(status, "qosClass", class);
        }
    }

    fn validate(&self, pod: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        validation::validate_pod(&mut out, pod);
        if !list_at(pod, &["spec", "ephemeralContainers"]).is_empty() {
            out.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
        let gated = !list_at(pod, &["spec", "schedulingGates"]).is_empty();
        if gated && has_path(pod, &["spec", "nodeName"]) {
            let detail = "cannot be set until all schedulingGates have been cleared";
            out.push(FieldError::forbidden("spec.nodeName", detail));
        }
        out
    }

    fn validate_update(&self, part: ObjectPart, pod: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        if part == ObjectPart::Status {
            let class = |pod: &Value| object::get_path(pod, &["status", "qosClass"]).cloned();
            validate_immutable(&mut out, "status.qosClass", class(pod).as_ref(), class(old).as_ref());
            let nominated = str_at(pod, &["status", "nominatedNodeName"]);
            if !nominated.is_empty() {
                push_invalid(
                    &mut out,
                    "status.nominatedNodeName",
                    nominated,
                    validate_subdomain_name(nominated, false),
                );
            }
            return out;
        }
        validation::validate_pod(&mut out, pod);
        validation::validate_pod_update(&mut out, pod, old);
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, pod: &Value, old: &Value) -> bool {
        pod.get("spec") != old.get("spec")
    }

    fn cells(&self, pod: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(pod_cells(pod, now))
    }
}

/// Adds a service account and mounts its token in every container.
fn add_service_account(spec: &mut Value) {
    set_default(spec, "serviceAccountName", "default");
    let account = spec.get("serviceAccountName").cloned().unwrap_or_default();
    spec["serviceAccount"] = account;
    let refused = has_path(spec, &["automountServiceAccountToken"])
        && !bool_at(spec, &["automountServiceAccountToken"]);
    if refused {
        return;
    }
    let mut names = list_at(spec, &["volumes"]).iter().map(|volume| str_at(volume, &["name"]));
    let known = names.find(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned);
    let is_new = known.is_none();
    let volume = known.unwrap_or_else(|| format!("{TOKEN_VOLUME}{}", random_suffix()));
    let mut mounted = false;
    for key in ["initContainers", "containers"] {
        for container in items_mut(spec, key) {
            mounted |= mount_token(container, &volume);
        }
    }
    if mounted && is_new {
        push(spec, "volumes", token_volume(&volume));
    }
}

fn mount_token(container: &mut Value, volume: &str) -> bool {
    let mounts = list_at(container, &["volumeMounts"]);
    if mounts.iter().any(|mount| str_at(mount, &["mountPath"]) == TOKEN_PATH) {
        return false;
    }
    push(container, "volumeMounts", json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
    true
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}

fn push(value: &mut Value, key: &str, item: Value) {
    set_default(value, key, json!([]));
    if let Some(list) = value.get_mut(key).and_then(Value::as_array_mut) {
        list.push(item);
    }
}

/// Five characters of the safe alphabet.
fn random_suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = Uuid::new_v4().into_bytes();
    let pick = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied().map(char::from);
    bytes.iter().take(5).filter_map(pick).collect()
}

/// Tolerates not-ready and unreachable nodes for five minutes.
fn add_default_tolerations(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list_at(spec, &["tolerations"]).iter().any(|one| {
            let (known, effect) = (str_at(one, &["key"]), str_at(one, &["effect"]));
            (known == key || known.is_empty()) && matches!(effect, "" | "NoExecute")
        });
        if !tolerated {
            let toleration = json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            });
            push(spec, "tolerations", toleration);
        }
    }
}

fn set_default_priority(spec: &mut Value) {
    let priority = match str_at(spec, &["priorityClassName"]) {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => 0,
    };
    spec["priority"] = priority.into();
    set_default(spec, "preemptionPolicy", "PreemptLowerPriority");
}

/// `QoS` class.
fn qos_class(spec: &Value) -> &'static str {
    let mut any = false;
    let mut all = true;
    for container in ["containers", "initContainers"].iter().flat_map(|key| list_at(spec, &[key])) {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                let amount = object::get_path(container, &["resources", kind, resource])
                    .and_then(Quantity::from_value);
                amount.filter(|amount| !amount.is_zero())
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            all &= limit.is_some() && limit == request;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
