//! Remaining content of a namespace, and how long deletion may still take. No I/O.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::object::{MetaAccessor, get_path, str_at};

/// Counts of remaining objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RemainingContent {
    /// By `plural.group`.
    pub objects: BTreeMap<String, usize>,
    /// By finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl RemainingContent {
    /// Whether nothing remains.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Counts objects; returns whether any of them has a finalizer.
    pub fn add(&mut self, plural: &str, group: &str, left: &[Value]) -> bool {
        *self.objects.entry(format!("{plural}.{group}")).or_default() += left.len();
        let mut has_finalizers = false;
        for finalizer in left.iter().flat_map(MetaAccessor::finalizers) {
            has_finalizers = true;
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
        has_finalizers
    }
}

/// Longest grace period of the running pods, in seconds.
pub fn pods_grace(pods: &[Value]) -> u64 {
    let running =
        pods.iter().filter(|pod| !matches!(str_at(pod, &["status", "phase"]), "Succeeded" | "Failed"));
    running
        .filter_map(|pod| get_path(pod, &["spec", "terminationGracePeriodSeconds"])?.as_u64())
        .max()
        .unwrap_or(0)
}

/// Remaining grace period, counted from the deletion of the namespace.
pub fn remaining_grace(grace: u64, deleted_at: &str, now: Timestamp) -> u64 {
    let Ok(deleted_at) = deleted_at.parse::<Timestamp>() else { return 0 };
    let since = u64::try_from(now.duration_since(deleted_at).as_secs()).unwrap_or(0);
    if since >= grace { 0 } else { grace }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grace_period_is_that_of_the_slowest_running_pod_and_ends() {
        let pods = [
            json!({"spec": {"terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}}),
            json!({"spec": {"terminationGracePeriodSeconds": 99}, "status": {"phase": "Failed"}}),
        ];
        assert_eq!(pods_grace(&pods), 30);
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(remaining_grace(30, "2026-01-01T00:00:00Z", at("2026-01-01T00:00:29Z")), 30);
        assert_eq!(remaining_grace(30, "2026-01-01T00:00:00Z", at("2026-01-01T00:00:30Z")), 0);
        assert_eq!(remaining_grace(30, "", at("2026-01-01T00:00:30Z")), 0);
    }
}
