//! What a previous run left: a live command, interrupted resources, a damaged state.

use std::time::Duration;

use terraform_driver::{
    clock,
    run::run_dir::{RunDir, RunSpec},
    state::StateRecovery,
    workspace::FileLock,
};

use super::*;

/// The directory of an earlier apply that started to create the VPC.
fn earlier_apply(site: &FakeSite) -> RunDir {
    let dir = RunDir::at(site.workspace().runs_dir().join("20261101T100000000Z-apply"));
    std::fs::create_dir_all(dir.path()).unwrap();
    dir.write_spec(&RunSpec {
        command: "apply".to_owned(),
        program: "/nonexistent/terraform".into(),
        args: Vec::new(),
        cwd: site.workspace().root().into(),
        created: clock::now(),
        grace: Duration::from_secs(1),
        silence: None,
        deadline: None,
        snapshots: site.workspace().meta_dir().join("state"),
        disk_reserve: 0,
        lease: None,
        max_log: None,
    })
    .unwrap();
    let started = serde_json::json!({
        "@level": "info", "@message": "aws_vpc.this: Creating...", "@timestamp": "2026-11-01T10:00:01Z",
        "type": "apply_start", "hook": {"resource": {"addr": "aws_vpc.this"}, "action": "create"},
    });
    std::fs::write(dir.events_path(), format!("{started}\n")).unwrap();
    dir
}

#[tokio::test]
async fn a_live_command_of_a_cluster_is_followed_with_the_lock_of_the_cluster() {
    let site = FakeSite::new();
    let dir = earlier_apply(&site);
    let _alive = FileLock::acquire(&dir.lock_path(), "a running terraform").unwrap();
    let (outcome, _) = run_with(&site, &cluster_job(), Goal::Plan, HookScript::default()).await;
    outcome.unwrap();
    assert_eq!(
        site.journal.take(),
        ["restore", "cluster lock", "slot", "recover", "cluster lock ends", "init", "plan", "slot ends",],
        "planning needs no lock"
    );
}

#[tokio::test]
async fn a_command_that_ended_leaves_the_cluster_to_others() {
    let site = FakeSite::new();
    earlier_apply(&site);
    let (outcome, _) = run_with(&site, &cluster_job(), Goal::Plan, HookScript::default()).await;
    outcome.unwrap();
    assert!(!site.journal.has("cluster lock"));
}

#[tokio::test]
async fn an_interrupted_resource_is_untainted_with_the_lock_of_its_cluster() {
    let site = FakeSite::new();
    earlier_apply(&site);
    site.put_state(&state(2, &[("aws_vpc", "tainted")]));
    let (outcome, hooks) = run_with(&site, &cluster_job(), Goal::Plan, HookScript::default()).await;
    outcome.unwrap();
    assert_eq!(
        site.journal.take(),
        [
            "restore",
            "cluster lock",
            "slot",
            "recover",
            "untaint",
            "cluster lock ends",
            "init",
            "plan",
            "slot ends",
        ]
    );
    assert!(hooks.phases().contains(&"settling".to_owned()));
}

#[tokio::test]
async fn a_resource_that_failed_by_itself_stays_tainted() {
    let site = FakeSite::new();
    site.put_state(&state(2, &[("aws_vpc", "tainted")]));
    run(&site, Goal::Plan).await.unwrap();
    assert!(!site.journal.has("untaint"));
}

#[tokio::test]
async fn an_untaint_that_fails_stops_the_run_before_a_plan_would_replace_the_resource() {
    let site = FakeSite::new();
    earlier_apply(&site);
    site.put_state(&state(2, &[("aws_vpc", "tainted")]));
    site.with(|script| {
        script.failing.insert("untaint", crate::pipeline::testing::terraform_failed);
    });
    let outcome = run(&site, apply()).await;
    assert!(matches!(outcome, Err(PipelineError::InterruptedResource(_))), "{outcome:?}");
    assert!(!site.journal.has("plan"));
}

#[tokio::test]
async fn a_repaired_state_is_told() {
    type Row = (fn() -> StateRecovery, Option<&'static str>);
    let table: [Row; 4] = [
        (|| StateRecovery::NoState, None),
        (|| StateRecovery::Intact(7), None),
        (
            || StateRecovery::FromSnapshot { serial: 7, problem: "torn" },
            Some("note: the state was torn; restored from snapshot 7"),
        ),
        (
            || StateRecovery::FromErrored(8),
            Some("note: recovered the state that terraform could not save (serial 8)"),
        ),
    ];
    for (recovery, note) in table {
        let site = FakeSite::new();
        site.with(|script| script.recovery = Some(recovery));
        run(&site, Goal::Plan).await.unwrap();
        let notes: Vec<_> = site.journal.take().into_iter().filter(|it| it.starts_with("note")).collect();
        assert_eq!(notes.first().map(String::as_str), note);
        assert!(notes.len() < 2, "{notes:?}");
    }
}

#[tokio::test]
async fn a_workspace_with_resources_does_not_move() {
    type Change = fn(&mut WorkspaceJob);
    let elsewhere: [(&str, Change); 2] = [
        ("region", |job| {
            let block = terraform_driver::render::ProviderBlock {
                region: "us-east-1".to_owned(),
                ..terraform_driver::render::ProviderBlock::default()
            };
            job.resolved.request.provider = Some(block);
        }),
        ("backend", |job| {
            job.resolved.request.source = terraform_driver::render::RootSource::Inline {
                format: terraform_driver::render::InlineFormat::Hcl,
                text: "terraform {\n  backend \"s3\" {}\n}\n".to_owned(),
            };
        }),
    ];
    for (name, change) in elsewhere {
        let here = job();
        let mut there = here.clone();
        change(&mut there);
        let site = applied_as(&here, &[("aws_vpc", "ok")]).await;
        let (outcome, _) = run_with(&site, &there, apply(), HookScript::default()).await;
        match outcome {
            Err(PipelineError::LocationChanged { what, .. }) => assert_eq!(what, name),
            other => panic!("{name}: {other:?}"),
        }
        assert!(!site.journal.has("init"), "{name}");
        site.put_state(&state(5, &[]));
        let (outcome, _) = run_with(&site, &there, Goal::Plan, HookScript::default()).await;
        assert!(outcome.is_ok(), "{name}: an empty workspace may move: {outcome:?}");
    }
}
