//! `ReplicaSets` of a Deployment: names, annotations and template hash. No I/O.

use serde_json::{Map, Value, json};

use super::super::pod_state::{controller_ref, int_at};
use crate::object::{MetaAccessor, get_path, get_path_mut, str_at};

/// Label that identifies the pods of one template.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Revision of a template.
pub const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY_ANNOTATION: &str = "deployment.kubernetes.io/revision-history";
/// Desired replicas of the Deployment when the `ReplicaSet` was last scaled.
pub const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
/// Desired replicas plus surge of the Deployment when the `ReplicaSet` was last scaled.
pub const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";
const HISTORY_LIMIT: usize = 2000;
const NAME_LIMIT: usize = 253;
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION_ANNOTATION,
    REVISION_HISTORY_ANNOTATION,
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    "deprecated.deployment.rollback.to",
];
/// Kubernetes' safe alphabet: no vowels, no ambiguous characters.
const SAFE_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// `spec.replicas`.
pub fn desired_replicas(set: &Value) -> i64 {
    int_at(set, &["spec", "replicas"])
}

/// `status.availableReplicas`.
pub fn available_replicas(set: &Value) -> i64 {
    int_at(set, &["status", "availableReplicas"])
}

/// Reads an annotation; empty if missing.
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    str_at(object, &["metadata", "annotations", key])
}

/// Revision of the `ReplicaSet`; 0 if missing.
pub fn revision(set: &Value) -> i64 {
    annotation(set, REVISION_ANNOTATION).parse().unwrap_or(0)
}

/// Reads a non-negative integer annotation.
pub fn count_annotation(set: &Value, key: &str) -> Option<i64> {
    annotation(set, key).parse::<u32>().ok().map(i64::from)
}

/// Sets an annotation; returns whether it changed.
pub fn annotate(object: &mut Value, key: &str, value: &str) -> bool {
    match get_path_mut(object, &["metadata", "annotations", key]) {
        Some(place) if place.as_str() != Some(value) => {
            *place = value.into();
            true
        }
        _ => false,
    }
}

/// Sets the size annotations; returns whether they changed.
pub fn annotate_size(set: &mut Value, desired: i64, max: i64) -> bool {
    let changed = annotate(set, DESIRED_REPLICAS_ANNOTATION, &desired.to_string());
    annotate(set, MAX_REPLICAS_ANNOTATION, &max.to_string()) || changed
}

/// Copies the Deployment's annotations and sets the revision; returns whether anything changed.
pub fn annotate_revision(set: &mut Value, deployment: &Value, revision: i64) -> bool {
    let mut changed = false;
    let notes = get_path(deployment, &["metadata", "annotations"]).and_then(Value::as_object);
    for (key, value) in notes.into_iter().flatten().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str())) {
        changed |= annotate(set, key, value.as_str().unwrap_or_default());
    }
    let before = annotation(set, REVISION_ANNOTATION).to_owned();
    let old = if before.is_empty() { Ok(0) } else { before.parse::<i64>() };
    if old.is_ok_and(|old| old < revision) {
        annotate(set, REVISION_ANNOTATION, &revision.to_string());
        if !before.is_empty() {
            let history = history_with(annotation(set, REVISION_HISTORY_ANNOTATION), &before);
            annotate(set, REVISION_HISTORY_ANNOTATION, &history);
        }
        changed = true;
    }
    changed
}

/// Revision history of a `ReplicaSet` that is reused by a rollback; the oldest entries are dropped first.
fn history_with(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|one| !one.is_empty()).collect();
    revisions.push(revision);
    let mut start = 0;
    loop {
        let joined = revisions.get(start..).unwrap_or_default().join(",");
        if joined.len() <= HISTORY_LIMIT {
            return joined;
        }
        start += 1;
    }
}

/// Whether both templates produce the same pods.
pub fn same_template(set: &Value, deployment: &Value) -> bool {
    template_without_hash(set) == template_without_hash(deployment)
}

fn template_without_hash(object: &Value) -> Value {
    let mut template = get_path(object, &["spec", "template"]).cloned().unwrap_or_default();
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else { return template };
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.shift_remove(POD_TEMPLATE_HASH);
    }
    metadata.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    if metadata.is_empty()
        && let Some(fields) = template.as_object_mut()
    {
        fields.shift_remove("metadata");
    }
    template
}

/// Hash of a template. Like kube-controller-manager's it depends on every field, but the value differs: that one hashes
/// Go's representation of the struct.
pub fn template_hash(deployment: &Value) -> String {
    let template = get_path(deployment, &["spec", "template"]).cloned().unwrap_or_default();
    let mut hash = Fnv::default();
    hash.write(sort_keys(&template).to_string().as_bytes());
    if let Some(collisions) = get_path(deployment, &["status", "collisionCount"]).and_then(Value::as_u64) {
        hash.write(&collisions.to_le_bytes());
    }
    let digits = hash.0.to_string();
    let letter =
        |digit: u8| SAFE_ALPHABET.get(usize::from(digit) % SAFE_ALPHABET.len()).copied().unwrap_or(b'b');
    digits.bytes().map(|digit| char::from(letter(digit))).collect()
}

struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

/// Makes the hash independent of the key order.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            Value::Object(fields.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sort_keys).collect()),
        other => other.clone(),
    }
}

/// Builds a `ReplicaSet` for the current template, without a size.
pub fn build_replica_set(deployment: &Value) -> Value {
    let hash = template_hash(deployment);
    let with_hash = |object: Option<&Value>, path: &[&str]| {
        let mut copy = object.cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if let Some(place) = get_path_mut(&mut copy, path) {
            *place = hash.clone().into();
        }
        copy
    };
    let spec = |key: &str| get_path(deployment, &["spec", key]);
    let template = with_hash(spec("template"), &["metadata", "labels", POD_TEMPLATE_HASH]);
    let room = NAME_LIMIT.saturating_sub(hash.len() + 1);
    let name: String = deployment.name().chars().take(room).collect();
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{name}-{hash}"), "namespace": deployment.namespace(),
            "labels": get_path(&template, &["metadata", "labels"]),
            "ownerReferences": [controller_ref(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": 0, "selector": with_hash(spec("selector"), &["matchLabels", POD_TEMPLATE_HASH]), "template": template,
        },
    });
    if let Some(seconds) = spec("minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.clone();
    }
    set
}
