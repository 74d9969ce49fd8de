//! Failed, killed and stopped runs: what still happens, and what must not.

use terraform_driver::{classify::FailureClass, run::StepError};

use super::*;
use crate::pipeline::testing::{MakeError, terraform_failed, terraform_interrupted, terraform_killed};

fn failing(step: &'static str, error: MakeError) -> FakeSite {
    let site = FakeSite::new();
    site.with(|script| {
        script.failing.insert(step, error);
    });
    site
}

#[tokio::test]
async fn nothing_follows_a_failed_step_but_the_end_of_its_slot() {
    let table: [(&str, &[&str]); 3] = [
        ("recover", &["restore", "slot", "recover", "slot ends"]),
        ("init", &["restore", "slot", "recover", "init", "slot ends"]),
        ("plan", &["restore", "slot", "recover", "init", "plan", "slot ends"]),
    ];
    for (step, journal) in table {
        let site = failing(step, terraform_failed);
        let outcome = run(&site, apply()).await;
        assert!(matches!(outcome, Err(PipelineError::Failed(_))), "{step}: {outcome:?}");
        assert_eq!(site.journal.take(), journal, "{step}");
    }
}

#[tokio::test]
async fn the_state_of_a_failed_apply_is_backed_up() {
    let errors: [MakeError; 3] = [terraform_failed, terraform_interrupted, terraform_killed];
    for error in errors {
        let site = failing("apply", error);
        let (outcome, hooks) = run_with(&site, &cluster_job(), apply(), HookScript::default()).await;
        outcome.unwrap_err();
        let journal = site.journal.take();
        let after: Vec<_> = journal.iter().skip_while(|it| *it != "apply").skip(1).collect();
        assert_eq!(after, ["cluster lock ends", "slot ends", "back up"]);
        let last = hooks.backups.lock().unwrap().last().unwrap().clone();
        assert!(last.has_state && last.begun, "{last:?}");
        // Resources may exist that are not in the state. A terraform whose provider or gateway was killed fails by itself.
        assert!(last.records_creates, "{:?}", error());
    }
}

#[tokio::test]
async fn nothing_is_applied_without_a_backup() {
    let site = FakeSite::new();
    let script = HookScript { fails: Some(("back up", 1)), ..HookScript::default() };
    let (outcome, _) = run_with(&site, &cluster_job(), apply(), script).await;
    assert!(matches!(outcome, Err(PipelineError::StateBackup { .. })), "{outcome:?}");
    assert!(!site.journal.has("apply") && !site.journal.has("cluster lock"));
}

#[tokio::test]
async fn an_apply_whose_state_cannot_be_backed_up_has_not_succeeded() {
    let site = FakeSite::new();
    let script = HookScript { fails: Some(("back up", 2)), ..HookScript::default() };
    let (outcome, _) = run_with(&site, &job(), apply(), script).await;
    assert!(matches!(outcome, Err(PipelineError::StateBackup { .. })), "{outcome:?}");
    assert!(site.journal.has("apply"));
}

#[tokio::test]
async fn a_state_that_cannot_be_restored_stops_the_run_before_anything_is_read() {
    let site = FakeSite::new();
    let script = HookScript { fails: Some(("restore", 1)), ..HookScript::default() };
    let (outcome, _) = run_with(&site, &job(), apply(), script).await;
    assert!(matches!(outcome, Err(PipelineError::StateBackup { .. })), "{outcome:?}");
    assert_eq!(site.journal.take(), ["restore"]);
}

#[tokio::test]
async fn a_stop_while_waiting_ends_the_run_without_changes() {
    let table: [(_, usize, &[&str]); 3] = [
        ("slot", 1, &["restore"]),
        ("confirm", 1, &["restore", "slot", "recover", "init", "plan", "confirm", "slot ends"]),
        (
            "cluster lock",
            1,
            &["restore", "slot", "recover", "init", "plan", "confirm", "back up", "slot ends", "back up"],
        ),
    ];
    for (name, call, journal) in table {
        let site = FakeSite::new();
        let script = HookScript { stop_while: Some((name, call)), ..HookScript::default() };
        let (outcome, _) = run_with(&site, &cluster_job(), apply(), script).await;
        assert!(matches!(outcome, Err(PipelineError::Interrupted)), "{name} {call}: {outcome:?}");
        assert_eq!(site.journal.take(), journal, "{name} {call}");
    }
}

#[tokio::test]
async fn a_workspace_that_another_process_uses_is_left_alone() {
    let site = FakeSite::new();
    let _other = site.workspace().lock("capt apply").unwrap();
    let outcome = run(&site, apply()).await;
    assert!(matches!(outcome, Err(PipelineError::Lock(_))), "{outcome:?}");
    assert!(site.journal.take().is_empty(), "not even the backup is read");
}

#[tokio::test]
async fn the_lock_of_a_workspace_ends_with_its_run() {
    let site = failing("plan", terraform_failed);
    run(&site, apply()).await.unwrap_err();
    let _free = site.workspace().lock("a test").unwrap();
}

#[test]
fn an_error_of_terraform_is_classified_and_an_interruption_is_none() {
    let failed = PipelineError::from(terraform_failed());
    let PipelineError::Failed(failure) = &failed else { panic!("{failed:?}") };
    assert_eq!(failure.code.as_deref(), Some("InvalidParameterException"));
    assert_eq!(failure.class, FailureClass::UserFix, "{failed}");
    assert!(matches!(PipelineError::from(terraform_interrupted()), PipelineError::Interrupted));
    let killed = PipelineError::from(terraform_killed());
    assert!(matches!(killed, PipelineError::Step(StepError::Killed { .. })), "{killed:?}");
}

#[test]
fn a_diagnostic_precedes_the_other_output_and_names_its_resource() {
    let said = |address: Option<&str>, detail: &str| terraform_driver::events::Diagnostic {
        severity: "error".to_owned(),
        summary: "creating EKS Cluster".to_owned(),
        detail: detail.to_owned(),
        address: address.map(str::to_owned),
        range: None,
    };
    let error = StepError::Failed {
        phase: terraform_driver::run::StepPhase::Applying,
        diagnostics: vec![
            said(None, "RequestError: send request failed"),
            said(Some("aws_eks_cluster.this"), "AccessDeniedException: not authorized"),
        ],
        tail: "panic".to_owned(),
    };
    let text = PipelineError::from(error).to_string();
    assert!(text.starts_with("aws_eks_cluster.this: ") && text.contains("AccessDenied"), "{text}");
}
