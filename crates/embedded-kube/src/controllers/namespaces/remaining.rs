//! What is left in a namespace, and how long it may still take. No I/O.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::object::{Meta, at, text};

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// By `plural.group`.
    pub objects: BTreeMap<String, usize>,
    /// By finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Counts objects; says whether any of them has a finalizer.
    pub fn add(&mut self, plural: &str, group: &str, left: &[Value]) -> bool {
        *self.objects.entry(format!("{plural}.{group}")).or_default() += left.len();
        let mut has_finalizers = false;
        for finalizer in left.iter().flat_map(Meta::finalizers) {
            has_finalizers = true;
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
        has_finalizers
    }
}

/// The longest grace period of pods that still run, in seconds.
pub fn pods_grace(pods: &[Value]) -> u64 {
    let running =
        pods.iter().filter(|pod| !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed"));
    running.filter_map(|pod| at(pod, &["spec", "terminationGracePeriodSeconds"])?.as_u64()).max().unwrap_or(0)
}

/// A grace period counts from the moment the namespace was deleted; once it is over, it is no excuse any more.
pub fn still_allowed(grace: u64, deleted_at: &str, now: Timestamp) -> u64 {
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
        assert_eq!(still_allowed(30, "2026-01-01T00:00:00Z", at("2026-01-01T00:00:29Z")), 30);
        assert_eq!(still_allowed(30, "2026-01-01T00:00:00Z", at("2026-01-01T00:00:30Z")), 0);
        assert_eq!(still_allowed(30, "", at("2026-01-01T00:00:30Z")), 0);
    }
}
