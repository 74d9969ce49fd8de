//! What the hooks of a run show in its snapshot.

use std::sync::atomic::AtomicBool;

use capt_kinds::api::RunPhase;
use terraform_driver::{events::TerraformProgress, run::StepPhase};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    pipeline::{RunHooks as _, testing::plan_summary},
    runs::run_hooks::OperatorRunHooks,
};

/// Hooks of a run that waits in `plan`.
async fn hooks(site: &FakeSite, runs: &mut Runs) -> OperatorRunHooks {
    let _closed = gate(site, "plan");
    runs.start(&job(), apply());
    runs.until(&key(), |run| run.phase == RunPhase::Planning).await;
    OperatorRunHooks {
        inner: Arc::clone(&runs.manager.inner),
        priority: RunPriority::Change,
        backup_store: runs.store.clone(),
        memory: Arc::default(),
        env: Vec::new(),
        region: None,
        cancelled: CancellationToken::new(),
        bundle_saved: AtomicBool::new(false),
        journal_task: Mutex::default(),
    }
}

#[tokio::test]
async fn the_phase_of_a_command_is_the_phase_of_the_run() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let hooks = hooks(&site, &mut runs).await;
    for (step, phase, shows_progress, waits) in [
        (StepPhase::Initialising, RunPhase::Initializing, false, false),
        (StepPhase::Planning, RunPhase::Planning, false, false),
        (StepPhase::Applying, RunPhase::Applying, true, false),
        (StepPhase::Destroying, RunPhase::Destroying, true, false),
        (StepPhase::Resuming, RunPhase::Pending, false, true),
        (StepPhase::Settling, RunPhase::Pending, false, true),
    ] {
        hooks.on_progress(&key(), step, &TerraformProgress::default());
        let run = runs.manager.snapshot(&key()).unwrap();
        assert_eq!(run.phase, phase, "{step}");
        assert_eq!(run.progress.is_some(), shows_progress, "{step}");
        assert_eq!(run.waiting_for.is_some(), waits, "{step}");
    }
}

#[tokio::test]
async fn notes_and_a_bypassed_gateway_are_shown() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let hooks = hooks(&site, &mut runs).await;
    hooks.add_note(&key(), "one");
    hooks.add_note(&key(), "two");
    hooks.on_gateway_bypass(&key(), "no version is locked");
    let run = runs.manager.snapshot(&key()).unwrap();
    assert_eq!(run.notes, ["one", "two"]);
    assert_eq!(run.gateway_bypass.as_deref(), Some("no version is locked"));
}

#[tokio::test]
async fn a_plan_is_confirmed_unless_the_run_was_cancelled() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let hooks = hooks(&site, &mut runs).await;
    let summary = plan_summary(&[("create", "aws_vpc"), ("replace", "aws_eip"), ("delete", "aws_subnet")], 7);
    assert!(hooks.confirm_plan(&key(), &summary).await);
    let plan = runs.manager.snapshot(&key()).unwrap().plan.unwrap();
    assert_eq!((plan.add, plan.change, plan.replace, plan.destroy), (1, 0, 1, 1));
    hooks.cancelled.cancel();
    assert!(!hooks.confirm_plan(&key(), &summary).await);
}

#[tokio::test]
async fn hooks_of_an_unknown_workspace_change_nothing() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let hooks = hooks(&site, &mut runs).await;
    let unknown = WorkspaceKey::new("team", "unknown");
    hooks.on_progress(&unknown, StepPhase::Applying, &TerraformProgress::default());
    hooks.add_note(&unknown, "lost");
    assert!(runs.manager.snapshot(&unknown).is_none());
}
