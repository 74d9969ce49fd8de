//! Destroying a workspace with only the contents of its directory.

use super::*;
use crate::pipeline::testing::{terraform_failed, terraform_killed};

/// An applied workspace whose destroy leaves these resources.
async fn site_leaving(resources: &[(&str, &str)]) -> FakeSite {
    let site = applied_as(&cluster_job(), &[("aws_eip", "ok"), ("aws_subnet", "ok")]).await;
    let after = state(4, resources);
    site.with(|script| {
        script.changes = vec![("delete", "aws_eip"), ("delete", "aws_subnet")];
        script.state = Some(after);
    });
    site
}

async fn destroy(site: &FakeSite) -> Outcome {
    destroy_with(site, DestroyReason::Requested, HookScript::default()).await.0
}

#[tokio::test]
async fn a_destroy_plans_with_a_slot_and_applies_with_the_cluster_lock() {
    let site = site_leaving(&[]).await;
    let outcome = destroy(&site).await.unwrap();
    assert!(matches!(outcome, WorkspaceOutcome::Destroyed { objects: 2 }), "{outcome:?}");
    assert_eq!(
        site.journal.take(),
        [
            "slot",
            "recover",
            "init",
            "plan",
            "confirm",
            "cluster lock",
            "destroy",
            "cluster lock ends",
            "slot ends",
            "back up",
        ]
    );
    assert!(!record(&site).begun, "nothing is left to destroy");
}

#[tokio::test]
async fn an_empty_state_needs_no_terraform() {
    let site = applied(&[]).await;
    let outcome = destroy(&site).await.unwrap();
    assert_eq!(outcome.to_string(), "nothing to destroy");
    assert_eq!(site.journal.take(), ["slot", "recover", "slot ends"]);
    assert!(!record(&site).begun);
}

#[tokio::test]
async fn what_remains_is_an_error_and_the_workspace_stays_begun() {
    let site = site_leaving(&[("aws_subnet", "ok")]).await;
    let outcome = destroy(&site).await;
    assert!(matches!(outcome, Err(PipelineError::ResourcesRemain { left: 1 })), "{outcome:?}");
    assert!(record(&site).begun && site.journal.has("back up"));
}

#[tokio::test]
async fn a_failed_destroy_backs_up_what_is_left() {
    for error in [terraform_failed, terraform_killed] {
        let site = site_leaving(&[("aws_subnet", "ok")]).await;
        site.with(|script| {
            script.failing.insert("destroy", error);
        });
        let (outcome, hooks) = destroy_with(&site, DestroyReason::Requested, HookScript::default()).await;
        assert!(matches!(outcome, Err(PipelineError::Failed(_) | PipelineError::Step(_))), "{outcome:?}");
        assert_eq!(hooks.backups.lock().unwrap().len(), 1);
        assert!(record(&site).begun);
    }
}

#[tokio::test]
async fn the_sealed_configuration_is_used_whatever_was_rendered_since() {
    let site = site_leaving(&[]).await;
    let main = site.workspace().root().join("main.tf");
    let sealed = std::fs::read_to_string(&main).unwrap();
    std::fs::write(&main, "# rendered for a plan that was never applied").unwrap();
    destroy(&site).await.unwrap();
    assert_eq!(std::fs::read_to_string(&main).unwrap(), sealed);
}

#[tokio::test]
async fn a_stop_while_waiting_destroys_nothing() {
    let steps: [(_, usize, &[&str]); 2] = [("slot", 1, &["recover"]), ("cluster lock", 1, &["destroy"])];
    for (name, call, absent) in steps {
        let site = site_leaving(&[]).await;
        let script = HookScript { stop_while: Some((name, call)), ..HookScript::default() };
        let (outcome, _) = destroy_with(&site, DestroyReason::Requested, script).await;
        assert!(matches!(outcome, Err(PipelineError::Interrupted)), "{name} {call}: {outcome:?}");
        assert!(absent.iter().all(|step| !site.journal.has(step)), "{name} {call}");
        assert!(record(&site).begun, "{name} {call}");
    }
}

#[tokio::test]
async fn a_declined_destroy_changes_nothing() {
    let site = site_leaving(&[]).await;
    let script = HookScript { declines: true, ..HookScript::default() };
    let (outcome, _) = destroy_with(&site, DestroyReason::Requested, script).await;
    assert!(matches!(outcome, Err(PipelineError::NotConfirmed)), "{outcome:?}");
    assert!(!site.journal.has("destroy") && !plan_file(&site));
}
