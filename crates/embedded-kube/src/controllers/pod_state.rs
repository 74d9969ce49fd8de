//! What controllers ask of a pod. No I/O.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::collector::OwnerRef;
use crate::object::{Meta, at, text};

/// The owner that manages an object.
pub fn controller_of(object: &Value) -> Option<OwnerRef> {
    let owners = at(object, &["metadata", "ownerReferences"])?.as_array()?;
    owners.iter().filter_map(|owner| OwnerRef::deserialize(owner).ok()).find(|owner| owner.is_controller)
}

/// A reference to the object that manages another.
pub fn controller_ref(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Has run to its end.
pub fn is_terminal(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// Counts as a replica.
pub fn is_active(pod: &Value) -> bool {
    !is_terminal(pod) && !pod.is_terminating()
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    let conditions = at(pod, &["status", "conditions"])?.as_array()?;
    conditions.iter().find(|condition| text(condition, &["type"]) == "Ready")
}

/// Serves.
pub fn is_ready(pod: &Value) -> bool {
    ready_condition(pod).is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// Since when it serves, if it does and says so.
pub fn ready_since(pod: &Value) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|_| is_ready(pod))?;
    text(condition, &["lastTransitionTime"]).parse().ok()
}

/// How long until a pod that serves counts as available; zero if it does now, `None` if it does not serve.
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

/// A whole number by path; 0 where there is none.
pub fn number(object: &Value, path: &[&str]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or_default()
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
