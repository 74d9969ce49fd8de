//! Defaults of Pods and pod templates.

use serde_json::{Value, json};

use crate::{
    kinds::common::{bool_at, has_path, int_at, items_mut, set_default},
    object::{get_path_mut, str_at},
};

/// Defaults of a Pod that do not apply to templates.
pub fn default_pod(spec: &mut Value) {
    let host = bool_at(spec, &["hostNetwork"]);
    for key in ["containers", "initContainers"] {
        for container in items_mut(spec, key) {
            requests_from_limits(container);
            if host {
                for port in items_mut(container, "ports") {
                    let number = int_at(port, &["containerPort"]).unwrap_or_default();
                    set_default(port, "hostPort", number);
                }
            }
        }
    }
    set_default(spec, "enableServiceLinks", true);
}

/// Requests default to the limits.
fn requests_from_limits(container: &mut Value) {
    let limits = container.get("resources").and_then(|one| one.get("limits")).cloned();
    let Some(Value::Object(limits)) = limits else { return };
    if let Some(requests) = get_path_mut(container, &["resources", "requests"]) {
        for (name, amount) in limits {
            set_default(requests, &name, amount);
        }
    }
}

/// Defaults of a pod spec, alone or in a template.
pub fn default_pod_spec(spec: &mut Value) {
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default(spec, "schedulerName", "default-scheduler");
    // The deprecated field is kept in sync.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(account) = spec.get(from).filter(|account| !account.is_null()).cloned() {
            set_default(spec, to, account);
        }
    }
    for volume in items_mut(spec, "volumes") {
        self::default_volume(volume);
    }
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, key) {
            self::default_container(container);
        }
    }
}

fn default_volume(volume: &mut Value) {
    // A volume without a source is an `emptyDir`.
    if volume.as_object().is_some_and(|map| map.keys().all(|key| key == "name")) {
        volume["emptyDir"] = json!({});
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(key).filter(|source| source.is_object()) {
            set_default(source, "defaultMode", 420);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        set_default(path, "type", "");
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        default_field_refs(source, "items");
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = default_pull_policy(str_at(image, &["reference"]));
        set_default(image, "pullPolicy", policy);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in items_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                set_default(token, "expirationSeconds", 3600);
            }
            if let Some(source) = source.get_mut("downwardAPI") {
                default_field_refs(source, "items");
            }
        }
    }
    if let Some(claim) = at_existing(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        set_default(claim, "volumeMode", "Filesystem");
    }
}

fn at_existing<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(key)).filter(|value| value.is_object())
}

fn default_field_refs(value: &mut Value, key: &str) {
    for item in items_mut(value, key) {
        if let Some(field) = at_existing(item, &["fieldRef"]) {
            set_default(field, "apiVersion", "v1");
        }
    }
}

fn default_container(container: &mut Value) {
    let policy = default_pull_policy(str_at(container, &["image"]));
    set_default(container, "imagePullPolicy", policy);
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        set_default(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = at_existing(variable, &["valueFrom", "fieldRef"]) {
            set_default(field, "apiVersion", "v1");
        }
        if let Some(file) = at_existing(variable, &["valueFrom", "fileKeyRef"]) {
            set_default(file, "optional", false);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = at_existing(container, &[key]) {
            self::default_probe(probe);
        }
    }
    for key in ["postStart", "preStop"] {
        if let Some(hook) = at_existing(container, &["lifecycle", key]) {
            default_http_get(hook);
        }
    }
}

fn default_probe(probe: &mut Value) {
    for (key, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_default(probe, key, number);
    }
    default_http_get(probe);
    if let Some(call) = at_existing(probe, &["grpc"]).filter(|call| !has_path(call, &["service"])) {
        call["service"] = "".into();
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(get) = at_existing(handler, &["httpGet"]) {
        set_default(get, "path", "/");
        set_default(get, "scheme", "HTTP");
    }
}

/// `Always` for the tag `latest`, explicit or implied.
fn default_pull_policy(image: &str) -> &'static str {
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
