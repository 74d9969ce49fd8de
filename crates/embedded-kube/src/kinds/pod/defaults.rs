//! Defaults of Pods and of the templates of Pods.

use serde_json::{Value, json};

use crate::{
    kinds::common::{fill, flag, has, int, items_mut},
    object::{at_mut, text},
};

/// What a Pod gets, but not a template.
pub fn pod(spec: &mut Value) {
    let host = flag(spec, &["hostNetwork"]);
    for key in ["containers", "initContainers"] {
        for container in items_mut(spec, key) {
            requests_from_limits(container);
            if host {
                for port in items_mut(container, "ports") {
                    let number = int(port, &["containerPort"]).unwrap_or_default();
                    fill(port, "hostPort", number);
                }
            }
        }
    }
    fill(spec, "enableServiceLinks", true);
}

/// Who names only a limit asks for as much.
fn requests_from_limits(container: &mut Value) {
    let limits = container.get("resources").and_then(|one| one.get("limits")).cloned();
    let Some(Value::Object(limits)) = limits else { return };
    if let Some(requests) = at_mut(container, &["resources", "requests"]) {
        for (name, amount) in limits {
            fill(requests, &name, amount);
        }
    }
}

/// A Pod's spec, alone or in a template.
pub fn spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    // The older name of the account says the same.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(account) = spec.get(from).filter(|account| !account.is_null()).cloned() {
            fill(spec, to, account);
        }
    }
    for volume in items_mut(spec, "volumes") {
        self::volume(volume);
    }
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, key) {
            self::container(container);
        }
    }
}

fn volume(volume: &mut Value) {
    // A volume without a source is an empty directory.
    if volume.as_object().is_some_and(|map| map.keys().all(|key| key == "name")) {
        volume["emptyDir"] = json!({});
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(key).filter(|source| source.is_object()) {
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        fill(path, "type", "");
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        field_refs(source, "items");
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(text(image, &["reference"]));
        fill(image, "pullPolicy", policy);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in items_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(source) = source.get_mut("downwardAPI") {
                field_refs(source, "items");
            }
        }
    }
    if let Some(claim) = at_existing(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        fill(claim, "volumeMode", "Filesystem");
    }
}

fn at_existing<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(key)).filter(|value| value.is_object())
}

fn field_refs(value: &mut Value, key: &str) {
    for item in items_mut(value, key) {
        if let Some(field) = at_existing(item, &["fieldRef"]) {
            fill(field, "apiVersion", "v1");
        }
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, &["image"]));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = at_existing(variable, &["valueFrom", "fieldRef"]) {
            fill(field, "apiVersion", "v1");
        }
        if let Some(file) = at_existing(variable, &["valueFrom", "fileKeyRef"]) {
            fill(file, "optional", false);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = at_existing(container, &[key]) {
            self::probe(probe);
        }
    }
    for key in ["postStart", "preStop"] {
        if let Some(hook) = at_existing(container, &["lifecycle", key]) {
            http_get(hook);
        }
    }
}

fn probe(probe: &mut Value) {
    for (key, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill(probe, key, number);
    }
    http_get(probe);
    if let Some(call) = at_existing(probe, &["grpc"]).filter(|call| !has(call, &["service"])) {
        call["service"] = "".into();
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = at_existing(handler, &["httpGet"]) {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}

/// What moves is pulled always: the tag `latest`, named or meant.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let is_malformed = image.is_empty() || image.contains(char::is_whitespace);
    match (tag, digest) {
        _ if is_malformed => "IfNotPresent",
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}
