//! The order of commands, locks and backups of an apply, and what each goal does with the plan.

use super::*;
use crate::pipeline::testing::BackupView;

#[tokio::test]
async fn an_apply_keeps_its_slot_and_backs_up_before_it_locks_the_cluster() {
    let site = FakeSite::new();
    let (outcome, _) = run_with(&site, &cluster_job(), apply(), HookScript::default()).await;
    assert_eq!(outcome.unwrap().to_string(), "1 added");
    assert_eq!(
        site.journal.take(),
        [
            "restore",
            "slot",
            "recover",
            "init",
            "plan",
            "confirm",
            "back up",
            "cluster lock",
            "apply",
            "cluster lock ends",
            "slot ends",
            "back up",
        ]
    );
}

#[tokio::test]
async fn without_a_cluster_there_is_no_lock() {
    let site = FakeSite::new();
    run(&site, apply()).await.unwrap();
    let journal = site.journal.take();
    assert!(!journal.iter().any(|it| it.starts_with("cluster lock")), "{journal:?}");
    assert_eq!(journal.iter().filter(|it| *it == "slot").count(), 1, "{journal:?}");
    assert_eq!(journal.iter().filter(|it| *it == "slot ends").count(), 1, "{journal:?}");
}

#[tokio::test]
async fn the_first_backup_holds_what_a_destroy_needs_and_the_second_the_state() {
    let site = FakeSite::new();
    let (outcome, hooks) = run_with(&site, &job(), apply(), HookScript::default()).await;
    outcome.unwrap();
    let before = BackupView { begun: true, sealed: true, records_creates: true, has_state: false };
    let after = BackupView { records_creates: false, has_state: true, ..before.clone() };
    assert_eq!(*hooks.backups.lock().unwrap(), [before, after]);
    assert_eq!(hooks.phases(), ["applying", "initialising", "planning", "resuming"]);
}

#[tokio::test]
async fn the_goal_decides_what_becomes_of_a_plan() {
    let creates = vec![("create", "aws_vpc")];
    let updates = vec![("update", "aws_vpc")];
    // Goal, changes, outcome, whether attributes are shown, whether it is applied.
    let table = [
        (Goal::Plan, &creates, "1 to add, 0 to change, 0 to replace, 0 to destroy", false, false),
        (Goal::Plan, &updates, "0 to add, 1 to change, 0 to replace, 0 to destroy", true, false),
        (Goal::DetectDrift, &updates, "0 to add, 1 to change, 0 to replace, 0 to destroy", false, false),
        (Goal::CorrectDrift, &updates, "1 changed", false, true),
        (apply(), &creates, "1 added", false, true),
        (Goal::Plan, &Vec::new(), "no changes", false, false),
        (Goal::DetectDrift, &Vec::new(), "no changes", false, false),
        (Goal::CorrectDrift, &Vec::new(), "no changes", false, false),
        (apply(), &Vec::new(), "no changes", false, false),
    ];
    for (goal, changes, text, shows, applies) in table {
        let site = FakeSite::new();
        site.with(|script| script.changes.clone_from(changes));
        let outcome = run(&site, goal.clone()).await.unwrap();
        let case = format!("{goal:?} {changes:?}");
        assert_eq!(outcome.to_string(), text, "{case}");
        assert_eq!(site.journal.has("show"), shows, "{case}");
        assert_eq!(site.journal.has("apply"), applies, "{case}");
        assert_eq!(site.journal.has("confirm"), applies, "{case}");
        assert_eq!(site.journal.has("back up"), applies, "{case}: nothing was changed");
        assert_eq!(record(&site).begun, applies, "{case}");
    }
}

#[tokio::test]
async fn a_plan_that_is_only_reported_is_removed() {
    for goal in [Goal::Plan, Goal::DetectDrift] {
        let site = FakeSite::new();
        run(&site, goal).await.unwrap();
        assert!(!plan_file(&site), "a plan file contains every value");
    }
}

#[tokio::test]
async fn an_empty_plan_ends_a_journal_of_creates() {
    let site = FakeSite::new();
    run(&site, Goal::Plan).await.unwrap();
    let journal = site.workspace().meta_dir().join("creating.json");
    std::fs::write(&journal, r#"{"since": "2026-11-01T00:00:00Z"}"#).unwrap();
    site.with(|script| script.changes.clear());
    run(&site, apply()).await.unwrap();
    assert!(!journal.exists());
}

#[tokio::test]
async fn a_remote_state_is_pulled_after_init_and_after_the_apply() {
    let site = FakeSite::new();
    let mut remote = job();
    remote.resolved.request.source = terraform_driver::render::RootSource::Inline {
        format: terraform_driver::render::InlineFormat::Hcl,
        text: "terraform {\n  backend \"s3\" {}\n}\n".to_owned(),
    };
    let (outcome, _) = run_with(&site, &remote, apply(), HookScript::default()).await;
    outcome.unwrap();
    let steps = site.journal.take();
    let of = |name: &str| steps.iter().filter(|it| *it == name).count();
    assert_eq!((of("pull"), of("apply")), (2, 1), "{steps:?}");
    assert!(record(&site).remote_state);
    site.with(|script| {
        script.failing.insert("apply", crate::pipeline::testing::terraform_failed);
    });
    let (outcome, _) = run_with(&site, &remote, apply(), HookScript::default()).await;
    outcome.unwrap_err();
    let steps = site.journal.take();
    let after = steps.iter().skip_while(|it| *it != "apply");
    assert!(after.clone().any(|it| it == "pull"), "the copy is refreshed after a failure, too: {steps:?}");
}

#[tokio::test]
async fn what_is_applied_is_recorded_with_the_directory() {
    let site = FakeSite::new();
    let mut job = cluster_job();
    job.retained = true;
    job.resolved.env = vec![("TOKEN".to_owned(), "hidden".to_owned())];
    job.resolved.args.plan = vec!["-parallelism=3".to_owned()];
    run_with(&site, &job, apply(), HookScript::default()).await.0.unwrap();
    let text = std::fs::read_to_string(site.workspace().meta_dir().join("workspace.json")).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    let record = record(&site);
    assert_eq!(record.owner, "WorkspaceTemplateApply team/demo-apply");
    assert_eq!((record.eks_cluster.as_deref(), record.retained), (Some("demo"), true));
    assert_eq!(record.env, ["TOKEN"]);
    let args = terraform_driver::command::UserArgs::from(&record.args);
    assert_eq!(args.plan, ["-parallelism=3"]);
}
