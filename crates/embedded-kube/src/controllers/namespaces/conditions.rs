//! What people are told about a namespace that is being deleted: five conditions, always all of them. No I/O.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::remaining::Remaining;
use crate::{
    clock,
    object::{at_mut, text},
};

/// Type, reason and message of each condition while nothing is wrong, in the order in which they are written.
const FINE: [(&str, &str, &str); 5] = [
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

/// See the module.
#[derive(Debug, Default)]
pub struct Conditions {
    failures: Vec<String>,
    content: Option<String>,
    finalizers: Option<String>,
}

impl Conditions {
    /// Something could not be deleted.
    pub fn content_failed(&mut self, why: &str) {
        self.failures.push(why.to_owned());
        self.failures.sort();
    }

    /// Something is left.
    pub fn remaining(&mut self, remaining: &Remaining) {
        let Remaining { objects, finalizers } = remaining;
        let objects: Vec<String> =
            objects.iter().map(|(name, count)| format!("{name} has {count} resource instances")).collect();
        let finalizers: Vec<String> =
            finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
        self.content = joined("Some resources are remaining: ", objects);
        self.finalizers = joined("Some content in the namespace has finalizers remaining: ", finalizers);
    }

    /// Says whether anything has changed.
    pub fn write_into(&self, namespace: &mut Value, now: Timestamp) -> bool {
        let Some(place) = at_mut(namespace, &["status", "conditions"]) else { return false };
        if !place.is_array() {
            *place = json!([]);
        }
        let Some(conditions) = place.as_array_mut() else { return false };
        let mut has_changed = false;
        for (kind, reason, message) in FINE {
            let (status, reason, message) = match self.problem(kind) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            has_changed |= set(conditions, [kind, status, reason, &message], now);
        }
        has_changed
    }

    fn problem(&self, kind: &str) -> Option<(&'static str, String)> {
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

fn joined(intro: &str, mut parts: Vec<String>) -> Option<String> {
    parts.sort();
    (!parts.is_empty()).then(|| format!("{intro}{}", parts.join(", ")))
}

fn set(conditions: &mut Vec<Value>, [kind, status, reason, message]: [&str; 4], now: Timestamp) -> bool {
    let Some(old) = conditions.iter_mut().find(|one| text(one, &["type"]) == kind) else {
        conditions.push(json!({
            "type": kind, "status": status, "lastTransitionTime": clock::seconds(now),
            "reason": reason, "message": message,
        }));
        return true;
    };
    let is_same = text(old, &["status"]) == status
        && text(old, &["reason"]) == reason
        && text(old, &["message"]) == message;
    if is_same {
        return false;
    }
    if text(old, &["status"]) != status {
        old["lastTransitionTime"] = clock::seconds(now).into();
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
        assert!(Conditions::default().write_into(&mut namespace, now));
        assert_eq!(namespace["status"]["conditions"].as_array().unwrap().len(), 5);
        assert_eq!(condition(&namespace, "NamespaceContentRemaining")["status"], "False");
        assert!(!Conditions::default().write_into(&mut namespace, now));
    }

    #[test]
    fn what_is_left_is_counted_by_resource_and_by_finalizer_and_changes_back() {
        let mut remaining = Remaining::default();
        let stuck = json!({"metadata": {"finalizers": ["b.example/x", "a.example/x"]}});
        assert!(remaining.add("widgets", "example.org", &[stuck.clone(), stuck]));
        assert!(!remaining.add("pods", "", &[json!({})]));
        let mut conditions = Conditions::default();
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
        assert!(Conditions::default().write_into(&mut namespace, later));
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
        let mut conditions = Conditions::default();
        conditions.content_failed("no");
        conditions.content_failed("another no");
        let mut namespace = json!({});
        conditions.write_into(&mut namespace, Timestamp::UNIX_EPOCH);
        let failed = condition(&namespace, "NamespaceDeletionContentFailure");
        assert_eq!(failed["reason"], "ContentDeletionFailed");
        assert_eq!(failed["message"], "Failed to delete all resource types, 2 remaining: another no, no");
    }
}
