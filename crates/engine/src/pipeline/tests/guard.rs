//! Only a plan that the guard lets pass, and that is not declined, is applied.

use super::*;
use crate::pipeline::testing::plan_hash;

fn replaces_vpc(site: &FakeSite) {
    site.with(|script| script.changes = vec![("replace", "aws_vpc")]);
}

fn refused_hash(outcome: Outcome) -> String {
    match outcome {
        Err(PipelineError::Blocked { hash, reasons }) => {
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            hash
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_destructive_plan_needs_an_approval_of_its_own_hash() {
    let short = terraform_driver::plan::PlanHash::new(&[1; 32]).short().to_owned();
    let table = [
        (apply(), false),
        (Goal::CorrectDrift, false),
        (approve(&plan_hash(1)), true),
        (approve(&short), false),
        (approve(&format!(" {}\n", plan_hash(1))), true),
        (approve(&plan_hash(1)[..6]), false),
        (approve(&plan_hash(2)), false),
        (approve(""), false),
    ];
    for (goal, passes) in table {
        let site = FakeSite::new();
        replaces_vpc(&site);
        let outcome = run(&site, goal.clone()).await;
        if passes {
            assert_eq!(outcome.unwrap().to_string(), "1 replaced", "{goal:?}");
        } else {
            assert_eq!(refused_hash(outcome), plan_hash(1), "{goal:?}");
        }
        assert_eq!(site.journal.has("apply"), passes, "{goal:?}");
        assert!(passes || !plan_file(&site), "{goal:?}: a refused plan is removed");
        assert!(passes || !site.journal.has("confirm"), "{goal:?}: a refused plan is not confirmed");
    }
}

#[tokio::test]
async fn an_approval_does_not_cover_the_plan_that_replaced_the_approved_one() {
    let site = FakeSite::new();
    replaces_vpc(&site);
    let approved = refused_hash(run(&site, apply()).await);
    site.with(|script| script.plan = 2);
    let newer = refused_hash(run(&site, approve(&approved)).await);
    assert_ne!(newer, approved);
    assert!(!site.journal.has("apply") && !record(&site).begun);
    run(&site, approve(&newer)).await.unwrap();
    assert!(site.journal.has("apply"));
}

#[tokio::test]
async fn each_protected_type_is_guarded_and_others_are_not() {
    for kind in terraform_driver::plan::PROTECTED_TYPES {
        for action in ["delete", "replace", "forget"] {
            let site = FakeSite::new();
            site.with(|script| script.changes = vec![("create", "aws_eip"), (action, kind)]);
            refused_hash(run(&site, apply()).await);
        }
    }
    let site = FakeSite::new();
    site.with(|script| script.changes = vec![("delete", "aws_eip"), ("update", "aws_vpc")]);
    assert_eq!(run(&site, apply()).await.unwrap().to_string(), "1 changed, 1 destroyed");
}

#[tokio::test]
async fn a_plan_that_is_not_to_be_applied_needs_no_approval() {
    for goal in [Goal::Plan, Goal::DetectDrift] {
        let site = FakeSite::new();
        replaces_vpc(&site);
        assert!(matches!(run(&site, goal).await, Ok(WorkspaceOutcome::Planned(_))));
    }
}

#[tokio::test]
async fn a_declined_plan_is_removed_and_the_slot_is_free() {
    let site = FakeSite::new();
    let declines = HookScript { declines: true, ..HookScript::default() };
    let (outcome, hooks) = run_with(&site, &cluster_job(), apply(), declines).await;
    assert!(matches!(outcome, Err(PipelineError::NotConfirmed)), "{outcome:?}");
    assert!(!plan_file(&site) && !record(&site).begun);
    assert!(hooks.backups.lock().unwrap().is_empty());
    assert_eq!(site.journal.take(), ["restore", "slot", "recover", "init", "plan", "confirm", "slot ends"]);
}

#[tokio::test]
async fn a_removed_workspace_is_guarded_and_a_requested_destroy_is_not() {
    let table = [
        (DestroyReason::Requested, true),
        (DestroyReason::RemovedFromManifests { approved: None }, false),
        (DestroyReason::RemovedFromManifests { approved: Some(plan_hash(2)) }, false),
        (DestroyReason::RemovedFromManifests { approved: Some(plan_hash(1)) }, true),
    ];
    for (reason, passes) in table {
        let site = applied(&[("aws_vpc", "ok")]).await;
        site.with(|script| {
            script.changes = vec![("delete", "aws_vpc")];
            script.state = Some(state(4, &[]));
        });
        let case = format!("{reason:?}");
        let (outcome, _) = destroy_with(&site, reason, HookScript::default()).await;
        if passes {
            assert!(matches!(outcome, Ok(WorkspaceOutcome::Destroyed { objects: 1 })), "{case}: {outcome:?}");
        } else {
            refused_hash(outcome);
        }
        assert_eq!(site.journal.has("destroy"), passes, "{case}");
        assert_eq!(record(&site).begun, !passes, "{case}");
    }
}
