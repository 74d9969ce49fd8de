//! Pod state as the controllers see it. No I/O.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::garbage_collector::OwnerRef;
use crate::object::{MetaAccessor, get_path, str_at};

/// The controlling owner reference of an object.
pub fn controller_of(object: &Value) -> Option<OwnerRef> {
    let owners = get_path(object, &["metadata", "ownerReferences"])?.as_array()?;
    owners.iter().filter_map(|owner| OwnerRef::deserialize(owner).ok()).find(|owner| owner.is_controller)
}

/// Builds a controller owner reference.
pub fn controller_ref(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Whether the pod has succeeded or failed.
pub fn is_terminal(pod: &Value) -> bool {
    matches!(str_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// Whether the pod counts as a replica.
pub fn is_active(pod: &Value) -> bool {
    !is_terminal(pod) && !pod.is_terminating()
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    let conditions = get_path(pod, &["status", "conditions"])?.as_array()?;
    conditions.iter().find(|condition| str_at(condition, &["type"]) == "Ready")
}

/// Whether the pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    ready_condition(pod).is_some_and(|condition| str_at(condition, &["status"]) == "True")
}

/// When the pod became ready, if it is ready and the condition has a time.
pub fn ready_since(pod: &Value) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|_| is_ready(pod))?;
    str_at(condition, &["lastTransitionTime"]).parse().ok()
}

/// Time until a ready pod counts as available: zero if it is available, `None` if it is not ready.
pub fn available_in(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> Option<SignedDuration> {
    if !is_ready(pod) {
        return None;
    }
    if min_ready_seconds == 0 {
        return Some(SignedDuration::ZERO);
    }
    let since = now.duration_since(ready_since(pod)?);
    Some((SignedDuration::from_secs(min_ready_seconds) - since).max(SignedDuration::ZERO))
}

/// Reads an integer by path; 0 if missing.
pub fn int_at(object: &Value, path: &[&str]) -> i64 {
    get_path(object, path).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_available_once_it_has_been_ready_long_enough() {
        let pod = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}});
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(available_in(&pod, 0, at("2026-01-01T00:00:00Z")), Some(SignedDuration::ZERO));
        assert_eq!(available_in(&pod, 10, at("2026-01-01T00:00:04Z")), Some(SignedDuration::from_secs(6)));
        assert_eq!(available_in(&pod, 10, at("2026-01-01T00:00:10Z")), Some(SignedDuration::ZERO));
        assert_eq!(available_in(&json!({}), 0, at("2026-01-01T00:00:10Z")), None);
    }

    #[test]
    fn only_the_owner_that_says_so_is_the_controller() {
        let object = json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
            {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true},
        ]}});
        assert_eq!(controller_of(&object).unwrap().uid, "2");
        assert_eq!(controller_of(&json!({})), None);
    }
}
