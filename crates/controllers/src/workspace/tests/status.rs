//! The status of a workspace after a run and a decision.

use std::time::Duration;

use capt_engine::{
    pipeline::Goal,
    runs::{RunPriority, RunResult, RunSnapshot},
};
use capt_kinds::api::{
    PlanStatus, RunOperation, RunPhase, SecretRef, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus,
    conditions::reasons,
};
use capt_kube::k8s::conditions::find;
use capt_model::workspaces::WorkspaceKey;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::controller::Action;
use serde_json::json;
use terraform_driver::{
    classify::{FailureClass, TerraformFailure},
    output::Outputs,
};

use crate::workspace::{
    act::WorkspaceOutcome,
    decide::Decision,
    observation::{
        ConditionReason, DestroyIdentity, DriftMode, DriftSettings, RunInputs, WorkspaceObservation,
    },
    status::{after_act, is_recorded, with_run},
};

type Status = WorkspaceTemplateApplyStatus;

fn now() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

fn object(status: Option<Status>) -> WorkspaceTemplateApply {
    let mut object: WorkspaceTemplateApply = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": "net-apply", "namespace": "team", "uid": "u", "generation": 4},
        "spec": {"module": "vpc"},
    }))
    .unwrap();
    object.status = status;
    object
}

fn finished(id: &str, operation: RunOperation, result: RunResult) -> RunSnapshot {
    let mut run = RunSnapshot::new(id.to_owned(), operation, now(), "hash".to_owned());
    run.phase = result.phase();
    run.finished_at = Some(now() + SignedDuration::from_mins(1));
    run.result = Some(result);
    run
}

fn failure(class: FailureClass) -> RunResult {
    RunResult::Failed(TerraformFailure {
        class,
        code: Some("Code".to_owned()),
        address: Some("aws_vpc.this".to_owned()),
        message: "it failed".to_owned(),
    })
}

fn record(before: Option<Status>, run: &RunSnapshot) -> Status {
    with_run(&object(before), Some(run))
}

fn observation(run: Option<RunSnapshot>) -> WorkspaceObservation {
    WorkspaceObservation {
        paused: false,
        deleting: false,
        has_finalizer: true,
        run,
        is_run_recorded: true,
        inputs: RunInputs::NotRead,
        dependents: Vec::new(),
        destroy_identity: DestroyIdentity::NotRead,
        other_owner: None,
        retains_resources: false,
        has_directory: true,
        drift: DriftSettings { mode: DriftMode::Off, interval: Duration::from_mins(1) },
        approved_plan: None,
        approved_by: None,
        run_requested_at: None,
    }
}

/// The status that a reconcile writes.
fn written(before: Option<Status>, run: Option<RunSnapshot>, decision: &Decision) -> Status {
    let object = object(before);
    let recorded = with_run(&object, run.as_ref());
    let outcome =
        WorkspaceOutcome { object, outputs: None, eks_cluster_arns: None, next: Ok(Action::await_change()) };
    let key = WorkspaceKey::new("team", "net");
    after_act(recorded, (&observation(run), decision), &outcome, (&key, now()))
}

fn condition(status: &Status, type_: &str) -> (String, String, String) {
    let it = find(&status.conditions, type_).unwrap();
    (it.status.clone(), it.reason.clone(), it.message.clone())
}

fn short(status: &Status, type_: &str) -> String {
    let (value, reason, _) = condition(status, type_);
    format!("{value} {reason}")
}

#[test]
fn each_result_leaves_its_traces() {
    use RunOperation::{Apply, Check, Destroy};
    // Operation, result, applied, checked, error.
    let table = [
        (Apply, RunResult::Applied, Some(true), true, false),
        (Apply, RunResult::Unchanged, Some(true), true, false),
        (Check, RunResult::Unchanged, None, true, false),
        (Check, RunResult::Differs { addresses: vec!["a".to_owned()] }, None, true, false),
        (Apply, RunResult::Blocked { reasons: vec![], hash: "h".to_owned() }, None, true, false),
        (Apply, failure(FailureClass::UserFix), None, false, true),
        (Apply, RunResult::Interrupted, None, false, false),
        (Destroy, RunResult::Destroyed, Some(false), false, false),
    ];
    for (operation, result, applied, checked, error) in table {
        let status = record(None, &finished("1", operation, result.clone()));
        assert_eq!(status.applied, applied, "{result:?}");
        assert_eq!(status.inputs_hash.is_some(), applied == Some(true), "{result:?}");
        assert_eq!(status.last_checked_time.is_some(), checked, "{result:?}");
        assert_eq!(status.last_error.is_some(), error, "{result:?}");
        assert_eq!(status.run.unwrap().phase, result.phase(), "{result:?}");
        assert_eq!(status.history.len(), 1, "{result:?}");
    }
}

#[test]
fn a_result_is_counted_once_however_often_it_is_seen() {
    let run = finished("1", RunOperation::Apply, failure(FailureClass::Throttle));
    let status = record(None, &run);
    assert!(is_recorded(&object(Some(status.clone())), &run) && !is_recorded(&object(None), &run));
    assert_eq!(record(Some(status.clone()), &run), status);
    assert_eq!(status.last_error.as_ref().unwrap().attempts, Some(1));
    let again = finished("2", RunOperation::Apply, failure(FailureClass::Throttle));
    assert!(!is_recorded(&object(Some(status.clone())), &again));
    let status = record(Some(status), &again);
    assert_eq!((status.last_error.as_ref().unwrap().attempts, status.history.len()), (Some(2), 2));
    let status = record(Some(status), &finished("3", RunOperation::Apply, RunResult::Applied));
    assert_eq!(status.last_error, None);
}

#[test]
fn failures_of_different_classes_are_counted_separately() {
    let run = |id, class| finished(id, RunOperation::Apply, failure(class));
    let busy = record(None, &run("1", FailureClass::Wait));
    let busy = record(Some(busy), &run("2", FailureClass::Wait));
    assert_eq!(busy.last_error.as_ref().unwrap().attempts, Some(2));
    let failed = record(Some(busy), &run("3", FailureClass::Network));
    assert_eq!(failed.last_error.unwrap().attempts, Some(1));
}

#[test]
fn the_history_keeps_ten_runs_and_no_uneventful_checks() {
    let mut status = None;
    for id in 0..15 {
        let run = finished(&id.to_string(), RunOperation::Apply, RunResult::Applied);
        status = Some(record(status, &run));
    }
    let check = finished("check", RunOperation::Check, RunResult::Unchanged);
    let status = record(status, &check);
    let ids: Vec<&str> = status.history.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["14", "13", "12", "11", "10", "9", "8", "7", "6", "5"]);
}

#[test]
fn an_error_is_retried_by_its_class() {
    let pause = |class| {
        let status = record(None, &finished("1", RunOperation::Apply, failure(class)));
        let error = status.last_error.unwrap();
        let at = error.retry_at.unwrap().0;
        (<&str>::from(error.class), at.duration_since(now() + SignedDuration::from_mins(1)).as_secs())
    };
    let (name, seconds) = pause(FailureClass::Wait);
    assert!(name == "Wait" && (30..=60).contains(&seconds), "{name} {seconds}");
    let (name, seconds) = pause(FailureClass::UserFix);
    assert!(name == "UserFix" && seconds >= 600, "{name} {seconds}");
}

#[test]
fn synced_says_what_keeps_the_workspace_from_its_spec() {
    let reason = |reason| ConditionReason::new(reason, "the message");
    let apply = |result| Some(finished("1", RunOperation::Apply, result));
    let blocked = RunResult::Blocked { reasons: vec!["aws_vpc.this".to_owned()], hash: "h".to_owned() };
    let table = [
        (None, Decision::Pause, "False ReconcilePaused"),
        (None, Decision::Reject(reason(reasons::INVALID_SPEC)), "False InvalidSpec"),
        (None, Decision::Wait(reason(reasons::WAITING_FOR_SECRETS), None), "False WaitingForSecrets"),
        (None, Decision::AwaitRun, "False Running"),
        (apply(failure(FailureClass::Wait)), Decision::Idle(None), "False WaitingForEKSMutation"),
        (apply(failure(FailureClass::Quota)), Decision::Idle(None), "False ReconcileError"),
        (apply(blocked), Decision::Idle(None), "False ApprovalRequired"),
        (apply(RunResult::Applied), Decision::Idle(None), "True ReconcileSuccess"),
    ];
    for (run, decision, expected) in table {
        let status = written(None, run, &decision);
        assert_eq!(short(&status, "Synced"), expected, "{decision:?}");
        assert_eq!(status.observed_generation, Some(4));
        assert_eq!(status.workspace_name.as_deref(), Some("net"));
    }
}

#[test]
fn ready_says_whether_the_resources_are_there() {
    let apply = |result| Some(finished("1", RunOperation::Apply, result));
    let destroy = |result| Some(finished("2", RunOperation::Destroy, result));
    let dependents = ConditionReason::new(reasons::WAITING_FOR_DEPENDENTS, "waiting for eks");
    let table = [
        (None, Decision::AwaitRun, "False Creating"),
        (apply(failure(FailureClass::Wait)), Decision::Idle(None), "False Creating"),
        (apply(failure(FailureClass::UserFix)), Decision::Idle(None), "False Unavailable"),
        (apply(RunResult::Applied), Decision::Idle(None), "True Available"),
        (apply(RunResult::Applied), Decision::Wait(dependents, None), "False Deleting"),
        (apply(RunResult::Applied), Decision::StartDestroy, "False Deleting"),
        (destroy(failure(FailureClass::Network)), Decision::Idle(None), "False Deleting"),
    ];
    for (run, decision, expected) in table {
        assert_eq!(short(&written(None, run, &decision), "Ready"), expected, "{decision:?}");
    }
}

#[test]
fn a_blocked_plan_stays_blocked_until_another_result() {
    let blocked =
        RunResult::Blocked { reasons: vec!["aws_vpc.this would go".to_owned()], hash: "abc".to_owned() };
    let run = finished("1", RunOperation::Apply, blocked);
    let status = written(None, Some(run), &Decision::Idle(None));
    let (value, reason, message) = condition(&status, "DestructiveChangeBlocked");
    assert_eq!((value.as_str(), reason.as_str()), ("True", "ApprovalRequired"));
    assert!(
        message.starts_with("aws_vpc.this would go; ") && message.contains("approve plan abc"),
        "{message}"
    );
    assert_eq!(status.plan.as_ref().unwrap().hash, "abc");
    let restarted = written(Some(status.clone()), None, &Decision::Idle(None));
    assert_eq!(short(&restarted, "DestructiveChangeBlocked"), "True ApprovalRequired");
    assert_eq!(short(&restarted, "Synced"), "False ApprovalRequired", "after a restart of the operator");
    let applied = finished("2", RunOperation::Apply, RunResult::Applied);
    let applied = written(Some(status), Some(applied), &Decision::Idle(None));
    assert_eq!(short(&applied, "DestructiveChangeBlocked"), "False NothingToApprove");
}

/// A status whose plan waits for an approval.
fn awaiting_approval(hash: &str) -> Status {
    let reasons = vec!["aws_vpc.this would go".to_owned()];
    let blocked = RunResult::Blocked { reasons, hash: hash.to_owned() };
    written(None, Some(finished("1", RunOperation::Apply, blocked)), &Decision::Idle(None))
}

/// The status that a reconcile writes when the annotations approve `plan`.
fn written_with_approval(before: Status, plan: &str, decision: &Decision) -> Status {
    let object = object(Some(before.clone()));
    let outcome =
        WorkspaceOutcome { object, outputs: None, eks_cluster_arns: None, next: Ok(Action::await_change()) };
    let observed = WorkspaceObservation {
        approved_plan: Some(plan.to_owned()),
        approved_by: Some("alice".to_owned()),
        ..observation(None)
    };
    after_act(before, (&observed, decision), &outcome, (&WorkspaceKey::new("team", "net"), now()))
}

#[test]
fn m3_an_approval_with_a_part_of_the_hash_is_refused_with_the_whole_one() {
    let hash = "0123456789abcdef".repeat(4);
    for part in ["0123456789ab", &hash[..63]] {
        let status = written_with_approval(awaiting_approval(&hash), part, &Decision::Idle(None));
        let (value, reason, message) = condition(&status, "DestructiveChangeBlocked");
        assert_eq!((value.as_str(), reason.as_str()), ("True", "ApprovalRequired"));
        assert!(message.contains("only a part of the plan hash") && message.ends_with(&hash), "{message}");
        assert_eq!(status.approval, None);
    }
    let other = written_with_approval(awaiting_approval(&hash), "f00", &Decision::Idle(None));
    assert!(condition(&other, "DestructiveChangeBlocked").2.starts_with("aws_vpc.this would go"));
}

#[test]
fn m3_the_approver_is_in_the_status_and_in_the_history_of_the_run() {
    let hash = "0123456789abcdef".repeat(4);
    let goal = Goal::Apply { approved: Some(hash.clone()) };
    let start = Decision::StartRun { goal, priority: RunPriority::Change };
    let status = written_with_approval(awaiting_approval(&hash), &hash, &start);
    let approval = status.approval.clone().unwrap();
    assert_eq!((approval.plan_hash, approval.user.as_deref()), (hash.clone(), Some("alice")));
    assert_eq!(status.history[0].approved_by, None, "the run that was refused was approved by nobody");
    let plan = Some(PlanStatus { hash, ..PlanStatus::default() });
    let applied = RunSnapshot { plan, ..finished("2", RunOperation::Apply, RunResult::Applied) };
    let status = record(Some(status), &applied);
    assert_eq!(status.history[0].approved_by.as_deref(), Some("alice"));
    let later = record(Some(status), &finished("3", RunOperation::Apply, RunResult::Applied));
    assert_eq!(later.history[0].approved_by, None, "another plan");
}

#[test]
fn drift_is_reported_until_it_is_corrected() {
    let addresses = vec!["aws_vpc.this".to_owned(), "and 2 more".to_owned()];
    let drifted = finished("1", RunOperation::Check, RunResult::Differs { addresses });
    let status = written(None, Some(drifted), &Decision::Idle(None));
    let (value, _, message) = condition(&status, "Drifted");
    assert_eq!((value.as_str(), message.as_str()), ("True", "drifted: aws_vpc.this, and 2 more"));
    let failed = finished("2", RunOperation::Apply, failure(FailureClass::Network));
    let status = written(Some(status), Some(failed), &Decision::Idle(None));
    assert_eq!(condition(&status, "Drifted").0, "True", "a failed correction corrects nothing");
    let corrected = finished("3", RunOperation::Apply, RunResult::Applied);
    let status = written(Some(status), Some(corrected), &Decision::Idle(None));
    assert_eq!(short(&status, "Drifted"), "False InSync");
    assert_eq!(short(&written(None, None, &Decision::Idle(None)), "Drifted"), "False NotChecked");
}

#[test]
fn sensitive_outputs_are_not_in_the_status() {
    let state = json!({"version": 4, "serial": 1, "lineage": "l", "resources": [], "outputs": {
        "vpc_id": {"value": "vpc-1", "type": "string"},
        "password": {"value": "hidden", "type": "string", "sensitive": true},
    }});
    let outputs = Outputs::from_state(state.to_string().as_bytes()).unwrap();
    let object = object(None);
    let outcome = WorkspaceOutcome {
        object: object.clone(),
        outputs: Some(outputs),
        eks_cluster_arns: None,
        next: Ok(Action::await_change()),
    };
    let key = WorkspaceKey::new("team", "net");
    let status = after_act(
        with_run(&object, None),
        (&observation(None), &Decision::Idle(None)),
        &outcome,
        (&key, now()),
    );
    assert_eq!(status.outputs.keys().collect::<Vec<_>>(), ["vpc_id"]);
    let before = SecretRef { name: "out".to_owned(), namespace: "team".to_owned() };
    let status = Status { connection_secret_ref: Some(before.clone()), ..status };
    let later = written(Some(status), None, &Decision::Pause);
    assert_eq!(later.connection_secret_ref, Some(before), "kept while the inputs are not read");
    assert_eq!(later.outputs.len(), 1);
}

#[test]
fn a_running_run_is_shown_with_what_it_waits_for() {
    let mut run = RunSnapshot::new("1".to_owned(), RunOperation::Apply, now(), "hash".to_owned());
    run.phase = RunPhase::Pending;
    run.waiting_for = Some("a free run slot".to_owned());
    let status = written(None, Some(run), &Decision::AwaitRun);
    let shown = status.run.unwrap();
    assert_eq!((shown.phase, shown.waiting_for.as_deref()), (RunPhase::Pending, Some("a free run slot")));
    assert!(shown.finished_at.is_none() && status.history.is_empty());
}
