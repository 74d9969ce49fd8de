//! What a deployment asks of its replica sets, and the names and notes it gives them. No I/O.

use serde_json::{Map, Value, json};

use super::super::pods::{controller_ref, number};
use crate::object::{Meta, at, at_mut, text};

/// Label that tells the pods of one template from those of another.
pub const HASH: &str = "pod-template-hash";
/// Counts the templates of a deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Size of the deployment when the set was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Size of the deployment with its surge when the set was last scaled.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HISTORY_LIMIT: usize = 2000;
const NAME_LIMIT: usize = 253;
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// No vowels, and nothing that looks like something else.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// `spec.replicas`.
pub fn size(set: &Value) -> i64 {
    number(set, &["spec", "replicas"])
}

/// `status.availableReplicas`.
pub fn available(set: &Value) -> i64 {
    number(set, &["status", "availableReplicas"])
}

/// An annotation; empty where there is none.
pub fn note<'a>(object: &'a Value, key: &str) -> &'a str {
    text(object, &["metadata", "annotations", key])
}

/// The set's place in the sequence of templates; 0 if it has none.
pub fn revision(set: &Value) -> i64 {
    note(set, REVISION).parse().unwrap_or(0)
}

/// A non-negative number in an annotation.
pub fn count_in(set: &Value, key: &str) -> Option<i64> {
    note(set, key).parse::<u32>().ok().map(i64::from)
}

/// Sets an annotation; says whether that changed anything.
pub fn annotate(object: &mut Value, key: &str, value: &str) -> bool {
    match at_mut(object, &["metadata", "annotations", key]) {
        Some(place) if place.as_str() != Some(value) => {
            *place = value.into();
            true
        }
        _ => false,
    }
}

/// Notes how large the deployment is; says whether that changed anything.
pub fn annotate_size(set: &mut Value, desired: i64, max: i64) -> bool {
    let changed = annotate(set, DESIRED, &desired.to_string());
    annotate(set, MAX, &max.to_string()) || changed
}

/// Copies the deployment's annotations and counts the revision up; says whether that changed anything.
pub fn annotate_revision(set: &mut Value, deployment: &Value, revision: i64) -> bool {
    let mut changed = false;
    let notes = at(deployment, &["metadata", "annotations"]).and_then(Value::as_object);
    for (key, value) in notes.into_iter().flatten().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str())) {
        changed |= annotate(set, key, value.as_str().unwrap_or_default());
    }
    let before = note(set, REVISION).to_owned();
    let old = if before.is_empty() { Ok(0) } else { before.parse::<i64>() };
    if old.is_ok_and(|old| old < revision) {
        annotate(set, REVISION, &revision.to_string());
        if !before.is_empty() {
            let history = history_with(note(set, HISTORY), &before);
            annotate(set, HISTORY, &history);
        }
        changed = true;
    }
    changed
}

/// A set that comes back remembers the revisions it had, the oldest being forgotten first.
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

/// Both templates make the same pods.
pub fn same_template(set: &Value, deployment: &Value) -> bool {
    bare_template(set) == bare_template(deployment)
}

fn bare_template(object: &Value) -> Value {
    let mut template = at(object, &["spec", "template"]).cloned().unwrap_or_default();
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else { return template };
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.shift_remove(HASH);
    }
    metadata.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    if metadata.is_empty()
        && let Some(fields) = template.as_object_mut()
    {
        fields.shift_remove("metadata");
    }
    template
}

/// A short name for a template. Like the real one it depends on every field, but it is not the same number: that one
/// is made of how another language prints its own types.
pub fn hash(deployment: &Value) -> String {
    let template = at(deployment, &["spec", "template"]).cloned().unwrap_or_default();
    let mut hash = Fnv::default();
    hash.write(sorted(&template).to_string().as_bytes());
    if let Some(collisions) = at(deployment, &["status", "collisionCount"]).and_then(Value::as_u64) {
        hash.write(&collisions.to_le_bytes());
    }
    let digits = hash.0.to_string();
    let letter = |digit: u8| LETTERS.get(usize::from(digit) % LETTERS.len()).copied().unwrap_or(b'b');
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

/// The order of fields says nothing.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            Value::Object(fields.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// A set for the deployment's present template, without a size yet.
pub fn new_set(deployment: &Value) -> Value {
    let hash = hash(deployment);
    let with_hash = |object: Option<&Value>, path: &[&str]| {
        let mut copy = object.cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if let Some(place) = at_mut(&mut copy, path) {
            *place = hash.clone().into();
        }
        copy
    };
    let spec = |key: &str| at(deployment, &["spec", key]);
    let template = with_hash(spec("template"), &["metadata", "labels", HASH]);
    let room = NAME_LIMIT.saturating_sub(hash.len() + 1);
    let name: String = deployment.name().chars().take(room).collect();
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{name}-{hash}"), "namespace": deployment.namespace(),
            "labels": at(&template, &["metadata", "labels"]),
            "ownerReferences": [controller_ref(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": 0, "selector": with_hash(spec("selector"), &["matchLabels", HASH]), "template": template,
        },
    });
    if let Some(seconds) = spec("minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.clone();
    }
    set
}
