//! Events of a Cluster from the difference of two statuses. Pure.

use capt_kinds::api::conditions::types;
use capt_kube::k8s::{conditions::is_true, events::EventSpec};

use super::cluster_types::ClusterStatus;

/// Events for the conditions that became true.
pub(super) fn transition_events(before: &ClusterStatus, now: &ClusterStatus) -> Vec<EventSpec> {
    let texts = [
        (types::INFRASTRUCTURE_READY, "infrastructure is ready"),
        (types::CONTROL_PLANE_INITIALIZED, "control plane is initialized"),
        (types::AVAILABLE, "cluster is available"),
        (types::PAUSED, "reconciliation is paused"),
        (types::DELETING, "cluster is being deleted"),
    ];
    let became_true = |type_: &str| is_true(&now.conditions, type_) && !is_true(&before.conditions, type_);
    texts
        .into_iter()
        .filter(|(type_, _)| became_true(type_))
        .map(|(type_, text)| EventSpec::normal("Reconcile", type_, text))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(type_: &str, value: &str) -> ClusterStatus {
        let condition = json!({"type": type_, "status": value, "reason": "R", "message": "",
            "lastTransitionTime": "2026-11-01T10:00:00Z"});
        serde_json::from_value(json!({"conditions": [condition]})).unwrap()
    }

    #[test]
    fn a_condition_is_an_event_when_it_becomes_true() {
        let reasons = |before: &ClusterStatus, now: &ClusterStatus| -> Vec<&'static str> {
            transition_events(before, now).into_iter().map(|it| it.reason).collect()
        };
        let (yes, no) = (status(types::AVAILABLE, "True"), status(types::AVAILABLE, "False"));
        assert_eq!(reasons(&no, &yes), [types::AVAILABLE]);
        assert_eq!(reasons(&ClusterStatus::default(), &yes), [types::AVAILABLE]);
        assert_eq!(reasons(&yes, &yes), [""; 0]);
        assert_eq!(reasons(&yes, &no), [""; 0]);
        assert_eq!(reasons(&no, &status(types::ROLLING_OUT, "True")), [""; 0], "not a milestone");
    }
}
