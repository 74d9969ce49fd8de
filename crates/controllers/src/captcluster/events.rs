//! Events for the transitions between two statuses of a `CAPTCluster`. Pure: no I/O.

use capt_kinds::api::{CaptClusterStatus, conditions::types};
use capt_kube::k8s::{
    conditions::{find, is_true, turned_true},
    events::EventSpec,
};

/// Action of all events.
const ACTION: &str = "Reconcile";
/// The network is ready.
const VPC_READY: &str = "VPCReady";
/// The network could not be created or changed.
const VPC_FAILED: &str = "VPCFailed";
/// A failure is resolved.
const RECOVERED: &str = "Recovered";
/// Reconciliation is paused.
const PAUSED: &str = "Paused";
/// Reconciliation is resumed.
const UNPAUSED: &str = "Unpaused";
/// A deletion step started.
const DELETING: &str = "Deleting";
/// The network is retained although its object is deleted.
pub(super) const VPC_RETAINED: &str = "VPCRetained";

/// Events for the difference between `old` and `new`.
pub(super) fn status_events(old: &CaptClusterStatus, new: &CaptClusterStatus) -> Vec<EventSpec> {
    let mut all = Vec::new();
    if let Some(ready) = turned_true(&old.conditions, &new.conditions, types::VPC_READY) {
        all.push(EventSpec::normal(ACTION, VPC_READY, format!("network is ready: {}", ready.message)));
    }
    match (&old.failure_reason, &new.failure_reason) {
        (before, Some(reason)) if before.as_ref() != Some(reason) => {
            let why = new.failure_message.as_deref().unwrap_or_default();
            all.push(EventSpec::warning(ACTION, VPC_FAILED, format!("{reason}: {why}")));
        }
        (Some(reason), None) => {
            all.push(EventSpec::normal(ACTION, RECOVERED, format!("recovered from {reason}")));
        }
        _ => {}
    }
    if let Some(paused) = turned_true(&old.conditions, &new.conditions, types::PAUSED) {
        all.push(EventSpec::normal(ACTION, PAUSED, paused.message.clone()));
    } else if is_true(&old.conditions, types::PAUSED) && !is_true(&new.conditions, types::PAUSED) {
        all.push(EventSpec::normal(ACTION, UNPAUSED, "no longer paused"));
    }
    let going = find(&new.conditions, types::DELETING).filter(|it| it.status == "True");
    let before = find(&old.conditions, types::DELETING).filter(|it| it.status == "True");
    if let Some(going) = going.filter(|it| before.is_none_or(|before| before.reason != it.reason)) {
        all.push(EventSpec::normal(ACTION, DELETING, going.message.clone()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::api::conditions::reasons;
    use capt_kube::k8s::conditions::{ConditionUpdate, set};

    fn status(said: &[ConditionUpdate], failure: Option<&str>) -> CaptClusterStatus {
        let mut status =
            CaptClusterStatus { failure_reason: failure.map(ToOwned::to_owned), ..Default::default() };
        for one in said {
            let _ = set(&mut status.conditions, one.clone(), None, "2026-11-01T10:00:00Z".parse().unwrap());
        }
        status
    }

    fn event_reasons(old: &CaptClusterStatus, new: &CaptClusterStatus) -> Vec<&'static str> {
        status_events(old, new).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn every_transition_is_told_once() {
        let nothing = status(&[], None);
        let ready =
            status(&[ConditionUpdate::status_true(types::VPC_READY, reasons::VPC_CREATED, "vpc-1")], None);
        let failed = status(&[], Some("VPCCreationFailed"));
        let waits = |reason| status(&[ConditionUpdate::status_true(types::DELETING, reason, "waits")], None);
        assert_eq!(event_reasons(&nothing, &ready), ["VPCReady"]);
        assert_eq!(event_reasons(&ready, &ready), [""; 0]);
        assert_eq!(event_reasons(&nothing, &failed), ["VPCFailed"]);
        assert_eq!(event_reasons(&failed, &failed), [""; 0]);
        assert_eq!(event_reasons(&failed, &ready), ["VPCReady", "Recovered"]);
        let (first, second) = (waits("WaitingForControlPlaneDeletion"), waits("WaitingForWorkspaceDeletion"));
        assert_eq!(event_reasons(&ready, &first), ["Deleting"]);
        assert_eq!(event_reasons(&first, &second), ["Deleting"]);
        assert_eq!(event_reasons(&second, &second), [""; 0]);
    }

    #[test]
    fn a_pause_is_told_at_both_ends() {
        let on = status(&[ConditionUpdate::status_true(types::PAUSED, reasons::PAUSED, "")], None);
        let off = status(&[ConditionUpdate::status_false(types::PAUSED, reasons::NOT_PAUSED, "")], None);
        assert_eq!(event_reasons(&off, &on), ["Paused"]);
        assert_eq!(event_reasons(&on, &off), ["Unpaused"]);
    }
}
