//! The status of a network case by case, and the latch under any sequence of failures.

use capt_kube::k8s::conditions::{find, is_true};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::captcluster::fixtures::workspace;

fn at(text: &str) -> StatusContext {
    StatusContext { generation: Some(3), now: text.parse().unwrap() }
}

fn now() -> StatusContext {
    at("2026-11-01T10:05:00Z")
}

fn ready() -> Value {
    json!({
        "observedGeneration": 1, "lastAppliedTime": "2026-11-01T10:04:00Z",
        "outputs": {"vpc_id": "vpc-1", "azs": ["eu-central-1b", "eu-central-1a", "eu-central-1b"]},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": "2026-11-01T10:04:00Z"},
            {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "message": "", "lastTransitionTime": "2026-11-01T10:04:00Z"},
        ],
    })
}

fn with_error(class: &str) -> Value {
    let mut status = ready();
    status["lastError"] =
        json!({"class": class, "code": "Denied", "address": "aws_vpc.this", "message": "no"});
    status["conditions"][1]["status"] = json!("False");
    status
}

fn only_error(class: &str) -> Value {
    json!({"observedGeneration": 1, "lastError": {"class": class, "message": "no"}})
}

fn observation(apply: &WorkspaceTemplateApply) -> NetworkObservation<'_> {
    NetworkObservation {
        apply: Some(apply),
        uses_existing_vpc: false,
        vpc_id: workspace_summary::string_output(apply, "vpc_id").map(ToOwned::to_owned),
        rejection: None,
        waiting_for: None,
        exceeded_timeout: None,
        endpoint: None,
    }
}

fn next_status(old: &CaptClusterStatus, status: &Value) -> CaptClusterStatus {
    let apply = workspace(&json!({"module": "vpc", "region": "eu-central-1"}), status);
    observed(old, now(), &observation(&apply))
}

fn first_status(status: &Value) -> CaptClusterStatus {
    next_status(&CaptClusterStatus::default(), status)
}

/// Type, status and reason of a condition.
fn condition_of(status: &CaptClusterStatus, type_: &str) -> (String, String) {
    find(&status.conditions, type_).map(|it| (it.status.clone(), it.reason.clone())).unwrap_or_default()
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_network_that_is_done_is_ready_with_its_zones() {
    let new = first_status(&ready());
    assert_eq!(
        (new.phase, new.ready, new.vpc_id.as_deref()),
        (Some(Phase::Ready), Some(true), Some("vpc-1"))
    );
    assert!(is_provisioned(&new));
    assert_eq!(condition_of(&new, "VPCReady"), pair("True", "VPCCreated"));
    assert_eq!(condition_of(&new, "Ready"), pair("True", "Ready"));
    assert_eq!(condition_of(&new, "Deleting"), pair("False", "NotDeleting"));
    assert_eq!(condition_of(&new, "Paused"), pair("False", "NotPaused"));
    let zones: Vec<_> = new.failure_domains.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(zones, ["eu-central-1a", "eu-central-1b"]);
    assert!(new.failure_domains.iter().all(|it| it.control_plane == Some(true)));
    assert_eq!(new.vpc_workspace_name.as_deref(), Some("net-vpc"));
    let workspace = new.workspace_template_status.unwrap();
    assert_eq!((workspace.ready, workspace.last_failure_message), (Some(true), None));
    assert_eq!(workspace.last_applied_revision.as_deref(), Some("2026-11-01T10:04:00Z"));
    assert_eq!(new.observed_generation, Some(3));
}

#[test]
fn a_vpc_that_was_there_is_said_to_be_used() {
    let apply = workspace(&json!({}), &ready());
    let new = observed(
        &CaptClusterStatus::default(),
        now(),
        &NetworkObservation { uses_existing_vpc: true, ..observation(&apply) },
    );
    assert_eq!(condition_of(&new, "VPCReady"), pair("True", "ExistingVPCUsed"));
}

#[test]
fn a_network_in_the_making_is_neither_ready_nor_failed() {
    for status in [json!({}), json!({"observedGeneration": 1}), only_error("Throttle"), only_error("Wait")] {
        let new = first_status(&status);
        assert_eq!((new.phase, new.ready), (Some(Phase::Creating), Some(false)), "{status}");
        assert_eq!(condition_of(&new, "VPCReady"), pair("False", "VPCCreating"));
        assert_eq!((new.failure_reason, new.initialization), (None, None));
    }
}

#[test]
fn a_failure_is_told_and_forgotten_when_it_is_over() {
    let failed = first_status(&only_error("UserFix"));
    assert_eq!(failed.phase, Some(Phase::Failed));
    assert_eq!(condition_of(&failed, "VPCReady"), pair("False", "VPCCreationFailed"));
    assert_eq!(condition_of(&failed, "VPCFailed"), pair("True", "VPCReconciliationFailed"));
    assert_eq!(failed.failure_reason.as_deref(), Some("VPCCreationFailed"));
    assert!(
        failed.failure_message.as_deref().is_some_and(|it| it.contains("WorkspaceTemplateApply net-vpc"))
    );
    let well = next_status(&failed, &ready());
    assert_eq!((well.failure_reason.as_deref(), well.failure_message.as_deref()), (None, None));
    assert!(find(&well.conditions, "VPCFailed").is_none());
    assert_eq!(well.phase, Some(Phase::Ready));
}

#[test]
fn a_change_that_fails_leaves_the_vpc_ready_and_the_latch_closed() {
    let new = next_status(&first_status(&ready()), &with_error("UserFix"));
    assert_eq!(condition_of(&new, "VPCReady"), pair("True", "VPCCreated"));
    assert_eq!(condition_of(&new, "Ready"), pair("False", "VPCReconciliationFailed"));
    assert_eq!((new.phase, new.ready, is_provisioned(&new)), (Some(Phase::Failed), Some(false), true));
}

#[test]
fn passing_trouble_of_a_network_that_is_there_is_only_a_note() {
    let new = next_status(&first_status(&ready()), &with_error("Throttle"));
    assert_eq!(condition_of(&new, "Ready"), pair("True", "Ready"));
    assert!(find(&new.conditions, "Ready").is_some_and(|it| it.message.contains("Denied")));
    assert_eq!((new.phase, new.failure_reason), (Some(Phase::Updating), None));
}

#[test]
fn a_newer_spec_is_an_update() {
    let mut status = ready();
    status["run"] = json!({"id": "2", "operation": "Apply", "phase": "Applying"});
    let new = next_status(&first_status(&ready()), &status);
    assert_eq!((new.phase, new.ready), (Some(Phase::Updating), Some(true)));
}

#[test]
fn what_takes_too_long_is_told_and_heals_by_itself() {
    let apply = workspace(&json!({}), &json!({"observedGeneration": 1}));
    let late = NetworkObservation { exceeded_timeout: Some(Duration::from_mins(15)), ..observation(&apply) };
    let new = observed(&CaptClusterStatus::default(), now(), &late);
    assert_eq!(condition_of(&new, "VPCReady"), pair("False", "VPCReadyTimeout"));
    assert_eq!(new.failure_reason.as_deref(), Some("VPCReadyTimeout"));
    assert!(new.failure_message.as_deref().is_some_and(|it| it.contains("15 minutes")));
    let well = next_status(&new, &ready());
    assert_eq!((well.phase, well.failure_reason), (Some(Phase::Ready), None));
}

#[test]
fn a_template_without_the_id_is_told_so() {
    for outputs in [json!({}), json!({"vpc_id": 7}), json!({"vpc_id": ""})] {
        let mut status = ready();
        status["outputs"] = outputs;
        let new = first_status(&status);
        assert!(!is_provisioned(&new));
        assert!(new.failure_message.as_deref().is_some_and(|it| it.contains("output vpc_id")));
    }
}

#[test]
fn a_spec_that_cannot_be_waits_for_a_change() {
    let refusal = NetworkRejection {
        reason: reasons::INVALID_VPC_CONFIG,
        message: "spec.vpcConfig.cidr: no".to_owned(),
    };
    let new = invalid(&CaptClusterStatus::default(), now(), &refusal);
    assert_eq!(condition_of(&new, "VPCReady"), pair("False", "InvalidVPCConfig"));
    assert_eq!(condition_of(&new, "VPCFailed"), pair("True", "InvalidVPCConfig"));
    assert_eq!(new.phase, Some(Phase::Failed));
    let later = invalid(&first_status(&ready()), now(), &refusal);
    assert_eq!(condition_of(&later, "VPCReady"), pair("True", "VPCCreated"), "the VPC is there all the same");
    assert!(is_provisioned(&later));
}

#[test]
fn a_pause_changes_one_condition() {
    let before = first_status(&ready());
    let mut new = paused(&before, now());
    assert_eq!(condition_of(&new, "Paused"), pair("True", "Paused"));
    let unpaused = CaptClusterStatus { conditions: before.conditions.clone(), ..new.clone() };
    assert_eq!(unpaused, before);
    new = next_status(&new, &ready());
    assert_eq!(condition_of(&new, "Paused"), pair("False", "NotPaused"));
}

#[test]
fn a_deletion_says_whom_it_waits_for() {
    let reason = reasons::WAITING_FOR_CONTROL_PLANE_DELETION;
    let new = deleting(&first_status(&ready()), now(), reason, "waiting for CAPTControlPlane cp");
    assert_eq!((new.phase, new.ready, is_provisioned(&new)), (Some(Phase::Deleting), Some(false), true));
    assert_eq!(condition_of(&new, "Deleting"), pair("True", reason));
    assert_eq!(condition_of(&new, "Ready"), pair("False", "Deleting"));
}

#[test]
fn the_same_findings_give_the_same_status() {
    let first = first_status(&ready());
    let apply = workspace(&json!({"module": "vpc", "region": "eu-central-1"}), &ready());
    let again = observed(&first, at("2026-11-01T11:00:00Z"), &observation(&apply));
    assert_eq!(first, again);
}

#[test]
fn an_endpoint_that_was_known_is_not_forgotten() {
    let apply = workspace(&json!({}), &ready());
    let with = observed(
        &CaptClusterStatus::default(),
        now(),
        &NetworkObservation { endpoint: Some("api.example"), ..observation(&apply) },
    );
    assert_eq!(observed(&with, now(), &observation(&apply)).endpoint.as_deref(), Some("api.example"));
}

/// Any status of a workspace.
fn any_workspace_status() -> impl Strategy<Value = Value> {
    let classes = prop::sample::select(vec!["Wait", "UserFix", "Throttle", "Quota", "Network", "Unknown"]);
    prop_oneof![
        Just(json!({})),
        Just(ready()),
        Just(json!({"observedGeneration": 1})),
        classes.clone().prop_map(with_error),
        classes.prop_map(only_error),
    ]
}

proptest! {
    /// P2, for the pure step: once closed, the latch stays closed, whatever happens; and it closes only for a network
    /// that is there.
    #[test]
    fn p2_the_latch_never_opens(states in prop::collection::vec((any_workspace_status(), 0..4_u8), 1..20)) {
        let mut status = CaptClusterStatus::default();
        let mut was_there = false;
        for (state, event) in states {
            let refusal = NetworkRejection { reason: reasons::INVALID_SPEC, message: "no".to_owned() };
            status = match event {
                0 => paused(&status, now()),
                1 => invalid(&status, now(), &refusal),
                2 => deleting(&status, now(), reasons::DELETING, ""),
                _ => next_status(&status, &state),
            };
            was_there |= event == 3 && state["conditions"][0]["status"] == "True";
            prop_assert_eq!(is_provisioned(&status), was_there);
            prop_assert!(status.phase != Some(Phase::Failed) || status.failure_reason.is_some());
            prop_assert!(!is_true(&status.conditions, "VPCFailed") || status.failure_reason.is_some());
        }
    }
}
