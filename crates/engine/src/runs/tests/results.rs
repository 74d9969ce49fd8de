//! From the end of a pipeline to the result of a run.

use capt_kinds::api::{RunOperation, RunPhase};
use terraform_driver::{
    classify::FailureClass,
    plan::{ChangeCounts, GuardReason, PlanAction},
    run::{StepError, StepPhase},
};

use super::*;
use crate::{
    pipeline::{
        PipelineError, WorkspaceOutcome,
        testing::{plan_summary, terraform_failed, terraform_interrupted, terraform_killed},
    },
    runs::retry,
};

fn blocked() -> PipelineError {
    let reason = GuardReason::Protected {
        address: "aws_vpc.this".to_owned(),
        resource_type: "aws_vpc".to_owned(),
        action: PlanAction::Replace,
        because: None,
    };
    PipelineError::Blocked { reasons: vec![reason], hash: "abc".to_owned() }
}

#[test]
fn every_outcome_has_a_phase_and_a_label() {
    let planned = || WorkspaceOutcome::Planned(Box::new(plan_summary(&[("update", "aws_vpc")], 1)));
    let throttled = || StepError::Failed {
        phase: StepPhase::Planning,
        diagnostics: Vec::new(),
        tail: "ThrottlingException: Rate exceeded".to_owned(),
    };
    let table = [
        (Ok(WorkspaceOutcome::Unchanged), "unchanged", RunPhase::Succeeded),
        (Ok(WorkspaceOutcome::Retained), "unchanged", RunPhase::Succeeded),
        (Ok(WorkspaceOutcome::Deferred { reason: String::new() }), "unchanged", RunPhase::Succeeded),
        (Ok(WorkspaceOutcome::Applied(ChangeCounts::default())), "applied", RunPhase::Succeeded),
        (Ok(planned()), "differs", RunPhase::Succeeded),
        (Ok(WorkspaceOutcome::Destroyed { objects: 0 }), "destroyed", RunPhase::Succeeded),
        (Err(blocked()), "blocked", RunPhase::AwaitingApproval),
        (Err(PipelineError::Interrupted), "interrupted", RunPhase::Interrupted),
        (Err(PipelineError::NotConfirmed), "interrupted", RunPhase::Interrupted),
        (Err(terraform_interrupted().into()), "interrupted", RunPhase::Interrupted),
        (Err(terraform_failed().into()), "failed", RunPhase::Failed),
        (Err(terraform_killed().into()), "failed", RunPhase::Failed),
        (Err(throttled().into()), "failed", RunPhase::Failed),
        (Err(PipelineError::StateLost), "failed", RunPhase::Failed),
    ];
    for (outcome, label, phase) in table {
        let case = format!("{outcome:?}");
        let result = RunResult::from_outcome(outcome);
        assert_eq!((result.metric_label(), result.phase()), (label, phase), "{case}");
    }
}

#[test]
fn a_blocked_run_names_what_would_be_lost() {
    let RunResult::Blocked { reasons, hash } = RunResult::from_outcome(Err(blocked())) else { panic!() };
    assert_eq!(
        (reasons.as_slice(), hash.as_str()),
        (["aws_vpc.this would be replaced".to_owned()].as_slice(), "abc")
    );
}

#[test]
fn drift_names_five_resources_and_counts_the_others() {
    let kinds = ["a", "b", "c", "d", "e", "f", "g"];
    for (count, last) in [(1, "a.this"), (5, "e.this"), (6, "and 1 more"), (7, "and 2 more")] {
        let changes: Vec<_> = kinds.iter().take(count).map(|kind| ("update", *kind)).collect();
        let outcome = WorkspaceOutcome::Planned(Box::new(plan_summary(&changes, 1)));
        let RunResult::Differs { addresses } = RunResult::from_outcome(Ok(outcome)) else { panic!() };
        assert_eq!(addresses.last().map(String::as_str), Some(last));
        assert_eq!(addresses.len(), count.min(6));
    }
}

#[test]
fn an_error_without_a_diagnostic_is_classified_by_its_step() {
    let lost =
        || PipelineError::StateBackup { doing: "back up the state", source: "no route to host".into() };
    let moved = PipelineError::LocationChanged { what: "region", from: "a".to_owned(), to: "b".to_owned() };
    let hung = StepError::Hung {
        phase: StepPhase::Applying,
        reason: terraform_driver::run::run_dir::StopReason::Silent,
    };
    let table = [
        (lost(), FailureClass::Network),
        (terraform_killed().into(), FailureClass::Interrupted),
        (hung.into(), FailureClass::Interrupted),
        (StepError::LeaseLost { phase: StepPhase::Applying }.into(), FailureClass::Interrupted),
        (PipelineError::ResourcesRemain { left: 2 }, FailureClass::Dependency),
        (moved, FailureClass::UserFix),
        (PipelineError::StateLost, FailureClass::UserFix),
        (PipelineError::OwnedByOther { owner: "x".to_owned() }, FailureClass::UserFix),
        (PipelineError::MissingEnvironment { name: "X".to_owned() }, FailureClass::UserFix),
        (blocked(), FailureClass::Unknown),
        (terraform_failed().into(), FailureClass::UserFix),
    ];
    for (error, class) in table {
        assert_eq!(retry::run_failure(&error).class, class, "{error:?}");
    }
    assert_eq!(retry::run_failure(&lost()).message, "cannot back up the state: no route to host");
}

#[test]
fn the_operation_of_a_run_follows_from_its_goal() {
    let converge = |goal| RunKind::Converge { job: Box::new(job()), goal };
    for (kind, operation) in [
        (converge(apply()), RunOperation::Apply),
        (converge(Goal::CorrectDrift), RunOperation::Apply),
        (converge(Goal::DetectDrift), RunOperation::Check),
        (converge(Goal::Plan), RunOperation::Check),
        (RunKind::Destroy { principal: None, expects_state: true }, RunOperation::Destroy),
    ] {
        assert_eq!(kind.operation(), operation);
    }
}
