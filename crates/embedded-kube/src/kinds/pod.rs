//! Pods: what the real server and its default admission make of one.

pub mod check;
mod containers;
pub mod defaults;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    columns::pod_cells,
    common::{complain, fill, flag, has, items_mut, keep, list, subdomain_name, unchanged},
    quantity::Quantity,
};
use crate::{
    failure::FieldError,
    object::{self, MetaMut, at_mut, text},
    registry::{Part, Rules},
};

pub struct Pod;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";

impl Rules for Pod {
    fn default(&self, pod: &mut Value) {
        if let Some(spec) = pod.get_mut("spec") {
            defaults::pod(spec);
            defaults::spec(spec);
        }
    }

    fn prepare_create(&self, pod: &mut Value) {
        pod.set_meta("generation", 1);
        if let Some(spec) = pod.get_mut("spec") {
            admit_account(spec);
            admit_tolerations(spec);
            admit_priority(spec);
        }
        let class = quality(pod.get("spec").unwrap_or(&Value::Null));
        if let Some(status) = at_mut(pod, &["status"]) {
            *status = json!({"phase": "Pending", "qosClass": class});
        }
    }

    fn prepare_update(&self, part: Part, pod: &mut Value, old: &Value) {
        if part != Part::Status {
            keep(pod, old, "status");
            if let (Some(spec), Some(old)) = (pod.get_mut("spec"), old.get("spec")) {
                admit_tolerations(spec);
                for key in ["priority", "preemptionPolicy"] {
                    if !has(spec, &[key]) {
                        keep(spec, old, key);
                    }
                }
            }
            return;
        }
        keep(pod, old, "spec");
        // Old kubelets are known to lose them.
        if let (Some(new), Some(old)) = (pod.get_mut("metadata"), old.get("metadata")) {
            keep(new, old, "ownerReferences");
        }
        let class = text(old, &["status", "qosClass"]);
        if !class.is_empty()
            && let Some(status) = at_mut(pod, &["status"])
        {
            fill(status, "qosClass", class);
        }
    }

    fn check(&self, pod: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        check::pod(&mut out, pod);
        if !list(pod, &["spec", "ephemeralContainers"]).is_empty() {
            out.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
        let gated = !list(pod, &["spec", "schedulingGates"]).is_empty();
        if gated && has(pod, &["spec", "nodeName"]) {
            let detail = "cannot be set until all schedulingGates have been cleared";
            out.push(FieldError::forbidden("spec.nodeName", detail));
        }
        out
    }

    fn check_update(&self, part: Part, pod: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        if part == Part::Status {
            let class = |pod: &Value| object::at(pod, &["status", "qosClass"]).cloned();
            unchanged(&mut out, "status.qosClass", class(pod).as_ref(), class(old).as_ref());
            let nominated = text(pod, &["status", "nominatedNodeName"]);
            if !nominated.is_empty() {
                complain(&mut out, "status.nominatedNodeName", nominated, subdomain_name(nominated, false));
            }
            return out;
        }
        check::pod(&mut out, pod);
        check::changes(&mut out, pod, old);
        out
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, pod: &Value, old: &Value) -> bool {
        pod.get("spec") != old.get("spec")
    }

    fn cells(&self, pod: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(pod_cells(pod, now))
    }
}

/// A service account, and its token in every container.
fn admit_account(spec: &mut Value) {
    fill(spec, "serviceAccountName", "default");
    let account = spec.get("serviceAccountName").cloned().unwrap_or_default();
    spec["serviceAccount"] = account;
    let refused =
        has(spec, &["automountServiceAccountToken"]) && !flag(spec, &["automountServiceAccountToken"]);
    if refused {
        return;
    }
    let mut names = list(spec, &["volumes"]).iter().map(|volume| text(volume, &["name"]));
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
    let mounts = list(container, &["volumeMounts"]);
    if mounts.iter().any(|mount| text(mount, &["mountPath"]) == TOKEN_PATH) {
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
    fill(value, key, json!([]));
    if let Some(list) = value.get_mut(key).and_then(Value::as_array_mut) {
        list.push(item);
    }
}

/// Five letters that make no words.
fn random_suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = Uuid::new_v4().into_bytes();
    let pick = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied().map(char::from);
    bytes.iter().take(5).filter_map(pick).collect()
}

/// Five minutes on a node that is not ready or out of reach.
fn admit_tolerations(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(spec, &["tolerations"]).iter().any(|one| {
            let (known, effect) = (text(one, &["key"]), text(one, &["effect"]));
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

fn admit_priority(spec: &mut Value) {
    let priority = match text(spec, &["priorityClassName"]) {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => 0,
    };
    spec["priority"] = priority.into();
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
}

/// How much of what it may use is promised to it.
fn quality(spec: &Value) -> &'static str {
    let mut any = false;
    let mut all = true;
    for container in ["containers", "initContainers"].iter().flat_map(|key| list(spec, &[key])) {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                let amount = object::at(container, &["resources", kind, resource]).and_then(Quantity::of);
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
