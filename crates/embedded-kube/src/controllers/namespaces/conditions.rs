//! Conditions of a terminating namespace: always all five. No I/O.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::remaining::RemainingContent;
use crate::{
    clock,
    object::{get_path_mut, str_at},
};

/// Type, reason and message of each condition without errors, in write order.
const DEFAULT_CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Collected errors and remaining content.
#[derive(Debug, Default)]
pub struct NamespaceConditions {
    failures: Vec<String>,
    content: Option<String>,
    finalizers: Option<String>,
}

impl NamespaceConditions {
    /// Deletion of some content failed.
    pub fn content_failed(&mut self, why: &str) {
        self.failures.push(why.to_owned());
        self.failures.sort();
    }

    /// Some content remains.
    pub fn remaining(&mut self, remaining: &RemainingContent) {
        let RemainingContent { objects, finalizers } = remaining;
        let objects: Vec<String> =
            objects.iter().map(|(name, count)| format!("{name} has {count} resource instances")).collect();
        let finalizers: Vec<String> =
            finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
        self.content = join_sorted("Some resources are remaining: ", objects);
        self.finalizers = join_sorted("Some content in the namespace has finalizers remaining: ", finalizers);
    }

    /// Returns whether anything changed.
    pub fn write_into(&self, namespace: &mut Value, now: Timestamp) -> bool {
        let Some(place) = get_path_mut(namespace, &["status", "conditions"]) else { return false };
        if !place.is_array() {
            *place = json!([]);
        }
        let Some(conditions) = place.as_array_mut() else { return false };
        let mut has_changed = false;
        for (kind, reason, message) in DEFAULT_CONDITIONS {
            let (status, reason, message) = match self.failing_condition(kind) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            has_changed |= set_condition(conditions, [kind, status, reason, &message], now);
        }
        has_changed
    }

    fn failing_condition(&self, kind: &str) -> Option<(&'static str, String)> {
        match kind {
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let count = self.failures.len();
                let list = self.failures.join(", ");
                let text = format!("Failed to delete all resource types, {count} remaining: {list}");
                Some(("ContentDeletionFailed", text))
            }
            "NamespaceContentRemaining" => Some(("SomeResourcesRemain", self.content.clone()?)),
            "NamespaceFinalizersRemaining" => Some(("SomeFinalizersRemain", self.finalizers.clone()?)),
            _ => None,
        }
    }
}

fn join_sorted(intro: &str, mut parts: Vec<String>) -> Option<String> {
    parts.sort();
    (!parts.is_empty()).then(|| format!("{intro}{}", parts.join(", ")))
}

fn set_condition(
    conditions: &mut Vec<Value>,
    [kind, status, reason, message]: [&str; 4],
    now: Timestamp,
) -> bool {
    let Some(old) = conditions.iter_mut().find(|one| str_at(one, &["type"]) == kind) else {
        conditions.push(json!({
            "type": kind, "status": status, "lastTransitionTime": clock::format_time(now),
            "reason": reason, "message": message,
        }));
        return true;
    };
    let is_same = str_at(old, &["status"]) == status
        && str_at(old, &["reason"]) == reason
        && str_at(old, &["message"]) == message;
    if is_same {
        return false;
    }
    if str_at(old, &["status"]) != status {
        old["lastTransitionTime"] = clock::format_time(now).into();
    }
    old["status"] = status.into();
    old["reason"] = reason.into();
    old["message"] = message.into();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition<'a>(namespace: &'a Value, kind: &str) -> &'a Value {
        let all = namespace["status"]["conditions"].as_array().unwrap();
        all.iter().find(|one| one["type"] == kind).unwrap()
    }

    #[test]
    fn an_empty_namespace_has_five_conditions_that_say_so_once() {
        let mut namespace = json!({"status": {"phase": "Terminating"}});
        let now = Timestamp::UNIX_EPOCH;
        assert!(NamespaceConditions::default().write_into(&mut namespace, now));
        assert_eq!(namespace["status"]["conditions"].as_array().unwrap().len(), 5);
        assert_eq!(condition(&namespace, "NamespaceContentRemaining")["status"], "False");
        assert!(!NamespaceConditions::default().write_into(&mut namespace, now));
    }

    #[test]
    fn what_is_left_is_counted_by_resource_and_by_finalizer_and_changes_back() {
        let mut remaining = RemainingContent::default();
        let stuck = json!({"metadata": {"finalizers": ["b.example/x", "a.example/x"]}});
        assert!(remaining.add("widgets", "example.org", &[stuck.clone(), stuck]));
        assert!(!remaining.add("pods", "", &[json!({})]));
        let mut conditions = NamespaceConditions::default();
        conditions.remaining(&remaining);
        let mut namespace = json!({});
        conditions.write_into(&mut namespace, Timestamp::UNIX_EPOCH);
        let content = condition(&namespace, "NamespaceContentRemaining");
        assert_eq!(content["reason"], "SomeResourcesRemain");
        assert_eq!(
            content["message"],
            "Some resources are remaining: pods. has 1 resource instances, widgets.example.org has 2 resource instances"
        );
        assert_eq!(
            condition(&namespace, "NamespaceFinalizersRemaining")["message"],
            "Some content in the namespace has finalizers remaining: a.example/x in 2 resource instances, b.example/x in 2 resource instances"
        );
        let later = Timestamp::from_second(60).unwrap();
        assert!(NamespaceConditions::default().write_into(&mut namespace, later));
        let content = condition(&namespace, "NamespaceContentRemaining");
        assert_eq!(content["status"], "False");
        assert_eq!(content["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(
            condition(&namespace, "NamespaceDeletionContentFailure")["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );
    }

    #[test]
    fn what_cannot_be_deleted_is_told_with_its_reasons() {
        let mut conditions = NamespaceConditions::default();
        conditions.content_failed("no");
        conditions.content_failed("another no");
        let mut namespace = json!({});
        conditions.write_into(&mut namespace, Timestamp::UNIX_EPOCH);
        let failed = condition(&namespace, "NamespaceDeletionContentFailure");
        assert_eq!(failed["reason"], "ContentDeletionFailed");
        assert_eq!(failed["message"], "Failed to delete all resource types, 2 remaining: another no, no");
    }
}
