//! Slots, cluster locks and runs that survived the previous process.

use capt_kinds::api::RunPhase;
use terraform_driver::{run::run_dir::RunDir, workspace::FileLock};

use super::*;
use crate::pipeline::{Goal, testing::Script};

#[tokio::test]
async fn a_run_without_a_slot_says_so_and_can_be_cancelled() {
    let site = FakeSite::new();
    let mut runs = Runs::with_slots(&site, 1);
    let gate = gate(&site, "plan");
    runs.start(&job(), apply());
    runs.until(&key(), |run| run.phase == RunPhase::Planning).await;
    let other = other_job();
    runs.start(&other, apply());
    let waits = runs.until(&other.key, |run| run.waiting_for.is_some()).await;
    assert_eq!(waits.waiting_for.as_deref(), Some("a free run slot"));
    assert_eq!(waits.phase, RunPhase::Pending);
    assert!(runs.manager.cancel(&other.key));
    let ended = runs.finished(&other.key).await;
    assert!(matches!(ended.result, Some(RunResult::Interrupted)) && ended.waiting_for.is_none());
    gate.add_permits(1);
    assert!(matches!(runs.finished(&key()).await.result, Some(RunResult::Applied)));
}

#[tokio::test]
async fn h6_a_hundred_runs_of_one_namespace_delay_another_one_by_one_slot_turnover() {
    let site = FakeSite::new();
    let mut runs = Runs::with_slots(&site, 2);
    let gate = gate(&site, "apply");
    let sleeper = |number: usize| WorkspaceKey::new("hostile", &format!("w{number}"));
    for number in 0..100 {
        runs.start(&WorkspaceJob { key: sleeper(number), ..job() }, apply());
    }
    for number in 0..2 {
        runs.until(&sleeper(number), |run| run.phase == RunPhase::Applying).await;
    }
    runs.start(&job(), apply());
    runs.until(&key(), |run| run.waiting_for.is_some()).await;
    // One of the two ends; the other one sleeps on.
    gate.add_permits(1);
    runs.until(&key(), |run| run.phase == RunPhase::Applying).await;
    let applied = (0..100).filter(|number| {
        let run = runs.manager.snapshot(&sleeper(*number)).unwrap();
        run.is_finished() || run.phase == RunPhase::Applying
    });
    assert_eq!(applied.count(), 2, "no other run of the namespace came between");
    gate.add_permits(102);
    runs.finished(&key()).await;
}

#[tokio::test]
async fn two_workspaces_of_a_cluster_are_applied_one_after_the_other() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let gate = gate(&site, "apply");
    runs.start(&cluster_job(), apply());
    runs.until(&key(), |run| run.phase == RunPhase::Applying).await;
    let other = other_job();
    runs.start(&other, apply());
    let waits = runs.until(&other.key, |run| run.waiting_for.is_some()).await;
    assert_eq!(waits.waiting_for.as_deref(), Some("the lock on EKS cluster demo"));
    assert_eq!(site.journal.take().iter().filter(|it| *it == "apply").count(), 1);
    gate.add_permits(2);
    for key in [key(), other.key] {
        assert!(matches!(runs.finished(&key).await.result, Some(RunResult::Applied)));
    }
}

#[tokio::test]
async fn clusters_of_the_same_name_in_two_regions_are_two_clusters() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    let gate = gate(&site, "apply");
    let elsewhere = WorkspaceJob { region: Some("us-east-1".to_owned()), ..other_job() };
    runs.start(&cluster_job(), apply());
    runs.start(&elsewhere, apply());
    for key in [&key(), &elsewhere.key] {
        runs.until(key, |run| run.phase == RunPhase::Applying).await;
    }
    gate.add_permits(2);
    for key in [&key(), &elsewhere.key] {
        runs.finished(key).await;
    }
}

/// A workspace whose command outlived its process, and the lock that the command holds.
async fn survivor(site: &FakeSite, job: &WorkspaceJob) -> FileLock {
    let mut before = Runs::new(site);
    before.run(job, apply()).await;
    let dir = RunDir::at(
        crate::pipeline::workspace_dir(site.path(), &job.key).runs_dir().join("20261101T100000000Z-apply"),
    );
    std::fs::create_dir_all(dir.path()).unwrap();
    FileLock::acquire(&dir.lock_path(), "a running terraform").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_surviving_run_keeps_its_cluster_until_it_ends() {
    let site = FakeSite::new();
    let alive = survivor(&site, &cluster_job()).await;
    let mut runs = Runs::new(&site);
    assert_eq!(runs.manager.adopt_surviving_runs().unwrap(), 1);
    let other = other_job();
    runs.start(&other, apply());
    let waits = runs.until(&other.key, |run| run.waiting_for.is_some()).await;
    assert_eq!(waits.waiting_for.as_deref(), Some("the lock on EKS cluster demo"));
    drop(alive);
    assert!(matches!(runs.finished(&other.key).await.result, Some(RunResult::Applied)));
}

#[tokio::test(start_paused = true)]
async fn two_survivors_of_a_cluster_share_its_lock_and_one_without_cluster_needs_none() {
    let site = FakeSite::new();
    let _alive = [
        survivor(&site, &cluster_job()).await,
        survivor(&site, &other_job()).await,
        survivor(&site, &WorkspaceJob { key: WorkspaceKey::new("team", "plain"), ..job() }).await,
    ];
    let runs = Runs::new(&site);
    assert_eq!(runs.manager.adopt_surviving_runs().unwrap(), 3);
}

#[tokio::test]
async fn nothing_survives_in_an_idle_directory() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    assert_eq!(runs.manager.adopt_surviving_runs().unwrap(), 0);
    runs.run(&cluster_job(), Goal::Plan).await;
    assert_eq!(runs.manager.adopt_surviving_runs().unwrap(), 0);
}

#[tokio::test]
async fn drift_checks_of_one_cluster_run_side_by_side() {
    let site = FakeSite::new();
    site.with(|script| *script = Script { changes: Vec::new(), ..Script::default() });
    let mut runs = Runs::new(&site);
    let gate = gate(&site, "plan");
    let other = other_job();
    runs.start(&cluster_job(), Goal::DetectDrift);
    runs.start(&other, Goal::DetectDrift);
    for key in [&key(), &other.key] {
        runs.until(key, |run| run.phase == RunPhase::Planning).await;
    }
    gate.add_permits(2);
    for key in [&key(), &other.key] {
        assert!(matches!(runs.finished(key).await.result, Some(RunResult::Unchanged)));
    }
}
