//! Derives events from the difference between the old and the new status. Pure.

use capt_kinds::api::{CaptControlPlaneStatus, conditions::types};
use capt_kube::k8s::{
    conditions::{find, is_true, turned_true},
    events::EventSpec,
};

/// `action` field of events.
const ACTION: &str = "Reconcile";
/// Event reason: a failure is resolved.
const RECOVERED: &str = "Recovered";
/// Event reason: the pause ended.
const UNPAUSED: &str = "Unpaused";

/// Conditions that publish a normal event when they become true, and its message.
const MILESTONES: [(&str, &str); 5] = [
    (types::EKS_CLUSTER_READY, "the EKS cluster is ACTIVE"),
    (types::KUBECONFIG_READY, "the kubeconfig Secret is written"),
    (types::INITIALIZED, "the API server is reachable"),
    (types::FARGATE_PROFILES_READY, "all Fargate profiles are ACTIVE"),
    (types::READY, "all requested resources exist"),
];

/// Conditions that publish a warning when they become false after being true.
const REGRESSIONS: [&str; 3] = [types::EKS_CLUSTER_READY, types::AVAILABLE, types::KUBECONFIG_READY];

/// The events of a status transition.
pub(super) fn transition_events(
    old: &CaptControlPlaneStatus,
    new: &CaptControlPlaneStatus,
) -> Vec<EventSpec> {
    let mut all = Vec::new();
    for (type_, sentence) in MILESTONES {
        if turned_true(&old.conditions, &new.conditions, type_).is_some() {
            all.push(EventSpec::normal(ACTION, type_, sentence));
        }
    }
    let is_going = is_true(&new.conditions, types::DELETING);
    for type_ in REGRESSIONS {
        let held = is_true(&old.conditions, type_) && !is_going;
        if let Some(lost) = find(&new.conditions, type_).filter(|it| held && it.status == "False") {
            all.push(EventSpec::warning(
                ACTION,
                "NotReady",
                format!("{type_}: {}: {}", lost.reason, lost.message),
            ));
        }
    }
    all.extend(failure_event(old, new));
    if let Some(failed) = turned_true(&old.conditions, &new.conditions, types::FARGATE_PROFILE_FAILED) {
        all.push(EventSpec::warning(ACTION, types::FARGATE_PROFILE_FAILED, failed.message.clone()));
    }
    if let Some(rolling) = turned_true(&old.conditions, &new.conditions, types::ROLLING_OUT) {
        all.push(EventSpec::normal(ACTION, types::ROLLING_OUT, rolling.message.clone()));
    }
    if let Some(paused) = turned_true(&old.conditions, &new.conditions, types::PAUSED) {
        all.push(EventSpec::normal(ACTION, types::PAUSED, paused.message.clone()));
    } else if is_true(&old.conditions, types::PAUSED) && !is_true(&new.conditions, types::PAUSED) {
        all.push(EventSpec::normal(ACTION, UNPAUSED, "no longer paused"));
    }
    let before = find(&old.conditions, types::DELETING).filter(|it| it.status == "True");
    let going = find(&new.conditions, types::DELETING).filter(|it| it.status == "True");
    if let Some(going) = going.filter(|it| before.is_none_or(|before| before.reason != it.reason)) {
        all.push(EventSpec::normal(ACTION, types::DELETING, going.message.clone()));
    }
    all
}

fn failure_event(old: &CaptControlPlaneStatus, new: &CaptControlPlaneStatus) -> Option<EventSpec> {
    match (&old.failure_reason, &new.failure_reason) {
        (before, Some(reason)) if before.as_ref() != Some(reason) => {
            let why = new.failure_message.as_deref().unwrap_or_default();
            Some(EventSpec::warning(ACTION, types::FAILED, format!("{reason}: {why}")))
        }
        (Some(reason), None) => {
            Some(EventSpec::normal(ACTION, RECOVERED, format!("recovered from {reason}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::api::conditions::reasons;
    use capt_kube::k8s::conditions::{ConditionUpdate, set};

    fn status(said: &[ConditionUpdate], failure: Option<&str>) -> CaptControlPlaneStatus {
        let failure_reason = failure.map(ToOwned::to_owned);
        let mut status = CaptControlPlaneStatus { failure_reason, ..CaptControlPlaneStatus::default() };
        for one in said {
            let _ = set(&mut status.conditions, one.clone(), None, jiff::Timestamp::UNIX_EPOCH);
        }
        status
    }

    fn reasons_of(old: &CaptControlPlaneStatus, new: &CaptControlPlaneStatus) -> Vec<&'static str> {
        transition_events(old, new).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn every_transition_is_told_once_and_what_was_never_there_is_no_loss() {
        let nothing = status(&[], None);
        let good =
            status(&[ConditionUpdate::status_true(types::EKS_CLUSTER_READY, reasons::READY, "")], None);
        let bad = status(
            &[ConditionUpdate::status_false(types::EKS_CLUSTER_READY, reasons::EKS_NOT_FOUND, "gone")],
            None,
        );
        assert_eq!(reasons_of(&nothing, &bad), [""; 0]);
        assert_eq!(reasons_of(&nothing, &good), ["EKSClusterReady"]);
        assert_eq!(reasons_of(&good, &good), [""; 0]);
        assert_eq!(reasons_of(&good, &bad), ["NotReady"]);
        let failed = status(&[], Some("WorkspaceError"));
        assert_eq!(reasons_of(&nothing, &failed), ["Failed"]);
        assert_eq!(reasons_of(&failed, &nothing), ["Recovered"]);
    }

    #[test]
    fn each_step_of_a_deletion_is_told_and_nothing_else_then() {
        let held = status(&[ConditionUpdate::status_true(types::AVAILABLE, reasons::AVAILABLE, "")], None);
        let step = |reason| {
            status(
                &[
                    ConditionUpdate::status_true(types::DELETING, reason, "x"),
                    ConditionUpdate::status_false(types::AVAILABLE, reasons::DELETING, "x"),
                ],
                None,
            )
        };
        let (first, second) =
            (step("WaitingForFargateProfilesDeletion"), step("WaitingForEKSClusterDeletion"));
        assert_eq!(reasons_of(&held, &first), ["Deleting"]);
        assert_eq!(reasons_of(&first, &second), ["Deleting"]);
        assert_eq!(reasons_of(&second, &second), [""; 0]);
    }
}
