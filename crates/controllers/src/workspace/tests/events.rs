//! Events of a workspace.

use capt_kinds::api::WorkspaceTemplateApplyStatus;
use serde_json::{Value, json};

use crate::workspace::events::status_events;

type Status = WorkspaceTemplateApplyStatus;

fn status(value: &Value) -> Status {
    serde_json::from_value(value.clone()).unwrap()
}

fn with_condition(type_: &str, value: &str, message: &str) -> Status {
    status(&json!({"conditions": [{"type": type_, "status": value, "reason": "R", "message": message,
        "lastTransitionTime": "2026-11-01T10:00:00Z"}]}))
}

fn failed(class: &str, attempts: i32, message: &str) -> Status {
    status(&json!({"lastError": {"class": class, "message": message, "attempts": attempts,
        "address": "aws_vpc.this", "retryAt": "2026-11-01T10:05:00Z"}}))
}

fn reasons(before: Option<&Status>, now: &Status) -> Vec<&'static str> {
    status_events(before, now).into_iter().map(|it| it.reason).collect()
}

#[test]
fn a_condition_is_an_event_when_it_becomes_true() {
    for (type_, reason) in [
        ("Ready", "WorkspaceReady"),
        ("Drifted", "DriftDetected"),
        ("DestructiveChangeBlocked", "DestructiveChangeBlocked"),
    ] {
        let (no, yes) = (with_condition(type_, "False", ""), with_condition(type_, "True", "why"));
        assert_eq!(reasons(None, &yes), [reason]);
        assert_eq!(reasons(Some(&no), &yes), [reason]);
        assert_eq!(reasons(Some(&yes), &yes), [""; 0], "{type_} is told once");
        assert_eq!(reasons(Some(&yes), &no), [""; 0], "{type_}");
    }
    let drifted = with_condition("Drifted", "True", "drifted: aws_vpc.this");
    assert_eq!(status_events(None, &drifted)[0].note, "drifted: aws_vpc.this");
}

#[test]
fn every_failed_attempt_is_an_event_and_a_wait_is_none() {
    let (first, second) = (failed("Throttle", 1, "slow down"), failed("Throttle", 2, "slow down"));
    assert_eq!(reasons(None, &first), ["RunFailed"]);
    assert_eq!(reasons(Some(&first), &first), [""; 0]);
    assert_eq!(reasons(Some(&first), &second), ["RunFailed"]);
    assert_eq!(reasons(Some(&first), &failed("Throttle", 1, "another")), ["RunFailed"]);
    assert_eq!(reasons(None, &failed("Wait", 1, "the cluster is busy")), [""; 0]);
    let note = &status_events(None, &first)[0].note;
    assert_eq!(note, "aws_vpc.this: slow down; next retry at 2026-11-01T10:05:00Z");
}

#[test]
fn a_run_that_may_change_something_is_an_event_when_it_starts() {
    let run = |id: &str, operation: &str, finished: Value| {
        status(
            &json!({"run": {"id": id, "operation": operation, "phase": "Pending", "finishedAt": finished}}),
        )
    };
    let apply = run("1", "Apply", Value::Null);
    assert_eq!(reasons(None, &apply), ["RunStarted"]);
    assert_eq!(status_events(None, &apply)[0].note, "Apply 1");
    assert_eq!(reasons(Some(&apply), &apply), [""; 0]);
    assert_eq!(reasons(Some(&apply), &run("2", "Destroy", Value::Null)), ["RunStarted"]);
    assert_eq!(reasons(Some(&apply), &run("2", "Check", Value::Null)), [""; 0], "checks are frequent");
    assert_eq!(reasons(None, &run("1", "Apply", json!("2026-11-01T10:00:00Z"))), [""; 0], "it has ended");
}
