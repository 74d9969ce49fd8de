//! Start, progress, cancellation and end of a run.

use capt_kinds::api::{RunOperation, RunPhase};
use terraform_driver::classify::FailureClass;

use super::*;
use crate::pipeline::testing::plan_hash;

#[tokio::test]
async fn a_run_reports_its_plan_and_its_end() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let snapshot = runs.run(&job(), apply()).await;
    assert!(matches!(snapshot.result, Some(RunResult::Applied)), "{snapshot:?}");
    assert_eq!((snapshot.operation, snapshot.phase), (RunOperation::Apply, RunPhase::Succeeded));
    assert_eq!(snapshot.inputs_hash, "inputs");
    assert!(snapshot.finished_at.is_some_and(|at| at >= snapshot.started_at));
    let plan = snapshot.plan.unwrap();
    assert_eq!((plan.hash, plan.add, plan.destroy), (plan_hash(1), 1, 0));
    assert_eq!((snapshot.waiting_for, snapshot.progress), (None, None));
    assert_eq!(runs.manager.active_count(), 0);
}

#[tokio::test]
async fn h7_the_commands_of_a_leader_carry_its_fence() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    runs.run(&job(), Goal::Plan).await;
    assert!(!site.journal.take().iter().any(|entry| entry.contains("fence")), "without leader election");
    let lease = serde_json::json!({"file": "/nonexistent/lease.json", "fence": 7});
    runs.manager.set_lease(serde_json::from_value(lease).unwrap());
    runs.run(&job(), apply()).await;
    for step in ["recover", "plan", "apply"] {
        assert!(site.journal.has(&format!("{step} with fence 7")), "{step}");
    }
}

#[tokio::test]
async fn every_change_of_a_run_names_its_object() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    runs.start(&job(), apply());
    assert_eq!(runs.changes.recv().await, Some(WorkspaceKey::new("team", "demo-apply")));
    runs.finished(&key()).await;
    let mut last = None;
    while let Ok(object) = runs.changes.try_recv() {
        last = Some(object);
    }
    assert!(last.is_none_or(|object| object == object_of(&key())));
}

#[tokio::test]
async fn a_workspace_has_one_run_at_a_time() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let gate = gate(&site, "plan");
    assert!(runs.start(&job(), apply()));
    runs.until(&key(), |run| run.phase == RunPhase::Planning).await;
    assert!(!runs.start(&job(), apply()));
    assert_eq!(runs.manager.active_count(), 1);
    gate.add_permits(2);
    runs.finished(&key()).await;
    let again = runs.run(&job(), apply()).await;
    assert!(matches!(again.result, Some(RunResult::Applied)));
}

#[tokio::test]
async fn a_run_is_cancelled_until_it_changes_resources() {
    for (step, phase, cancels) in [
        ("init", RunPhase::Initializing, true),
        ("plan", RunPhase::Planning, true),
        ("apply", RunPhase::Applying, false),
    ] {
        let site = FakeSite::new();
        let mut runs = Runs::new(&site);
        let gate = gate(&site, step);
        runs.start(&job(), apply());
        runs.until(&key(), |run| run.phase == phase).await;
        assert_eq!(runs.manager.cancel(&key()), cancels, "{step}");
        if !cancels {
            gate.add_permits(1);
        }
        let result = runs.finished(&key()).await.result;
        assert_eq!(matches!(result, Some(RunResult::Interrupted)), cancels, "{step}: {result:?}");
        assert!(!runs.manager.cancel(&key()), "{step}: it has ended");
    }
}

#[tokio::test]
async fn there_is_nothing_to_cancel_without_a_run() {
    let site = FakeSite::new();
    let runs = Runs::new(&site);
    assert!(!runs.manager.cancel(&key()));
    assert!(runs.manager.snapshot(&key()).is_none());
}

#[tokio::test]
async fn a_panic_ends_the_run_as_a_failure_and_frees_the_workspace() {
    let site = FakeSite::new();
    let mut runs = Runs::with_slots(&site, 1);
    site.with(|script| script.panicking = Some("apply"));
    let broken = runs.run(&cluster_job(), apply()).await;
    assert!(failure_message(&broken).contains("this is a bug in capt"), "{broken:?}");
    assert_eq!(broken.phase, RunPhase::Failed);
    site.with(|script| script.panicking = None);
    let next = runs.run(&cluster_job(), apply()).await;
    assert!(matches!(next.result, Some(RunResult::Applied)), "slot, lock and workspace are free: {next:?}");
}

#[tokio::test]
async fn nothing_starts_after_the_end_of_leadership() {
    let site = FakeSite::new();
    let runs = Runs::new(&site);
    runs.manager.close();
    assert!(!runs.start(&job(), apply()));
    assert!(runs.manager.snapshot(&key()).is_none());
}

#[tokio::test]
async fn draining_cancels_what_only_plans_and_awaits_what_changes_resources() {
    for (step, phase, interrupts) in
        [("plan", RunPhase::Planning, true), ("apply", RunPhase::Applying, false)]
    {
        let site = FakeSite::new();
        let mut runs = Runs::new(&site);
        let gate = gate(&site, step);
        runs.start(&job(), apply());
        runs.until(&key(), |run| run.phase == phase).await;
        let manager = runs.manager.clone();
        let drained = tokio::spawn(async move { manager.drain().await });
        if !interrupts {
            while !runs.manager.inner.closing.is_cancelled() {
                tokio::task::yield_now().await;
            }
            gate.add_permits(1);
        }
        drained.await.unwrap();
        assert_eq!(runs.manager.active_count(), 0, "{step}");
        let result = runs.manager.snapshot(&key()).unwrap().result;
        assert_eq!(matches!(result, Some(RunResult::Interrupted)), interrupts, "{step}: {result:?}");
        assert!(!runs.start(&job(), apply()), "{step}");
        if !interrupts {
            assert!(runs.store.stored().state.is_some(), "the next leader restores from the backup");
        }
    }
}

#[tokio::test]
async fn a_workspace_is_not_removed_while_it_is_in_use() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let gate = gate(&site, "plan");
    runs.start(&job(), apply());
    runs.until(&key(), |run| run.phase == RunPhase::Planning).await;
    runs.manager.remove_workspace(&key()).unwrap();
    assert!(site.workspace().dir().exists() && runs.manager.snapshot(&key()).is_some());
    gate.add_permits(1);
    runs.finished(&key()).await;
    runs.manager.remove_workspace(&key()).unwrap();
    assert!(!site.workspace().dir().exists() && runs.manager.snapshot(&key()).is_none());
}

#[tokio::test]
async fn the_first_object_that_applies_owns_a_workspace() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    assert_eq!(runs.manager.owner(&key()).unwrap(), None);
    let retained = WorkspaceJob { retained: true, ..job() };
    runs.run(&retained, apply()).await;
    assert_eq!(runs.manager.owner(&key()).unwrap().unwrap(), "WorkspaceTemplateApply team/demo-apply");
    assert_eq!(runs.manager.other_owner(&key(), &object_of(&key())).unwrap(), None);
    assert!(runs.manager.other_owner(&key(), &key()).unwrap().is_some());
    assert!(runs.manager.is_retained(&key()).unwrap());
    assert!(runs.manager.outputs(&key()).unwrap().is_some());
    assert!(runs.manager.outputs(&other_job().key).unwrap().is_none());
}

#[tokio::test]
async fn a_provider_that_does_not_work_is_installed_again() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    runs.run(&job(), Goal::Plan).await;
    let init = site.workspace().meta_dir().join("init.json");
    let broken: crate::pipeline::testing::MakeError = || terraform_driver::run::StepError::Failed {
        phase: terraform_driver::run::StepPhase::Planning,
        diagnostics: Vec::new(),
        tail: "Error: Failed to install provider".to_owned(),
    };
    for (error, class, stays) in [
        (broken, FailureClass::Provider, false),
        (crate::pipeline::testing::terraform_failed, FailureClass::UserFix, true),
    ] {
        std::fs::write(&init, "{}").unwrap();
        site.with(|script| {
            script.failing.insert("plan", error);
        });
        let snapshot = runs.run(&job(), apply()).await;
        match snapshot.result {
            Some(RunResult::Failed(failure)) => assert_eq!(failure.class, class, "{failure:?}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(init.exists(), stays, "{class:?}");
    }
}
