//! Destroys: from the sealed bundle, on this disk or on an empty one.

use super::*;
use crate::pipeline::{WorkspaceRecord, testing::state};

fn destroy(expects_state: bool) -> RunKind {
    RunKind::Destroy { principal: None, expects_state }
}

/// A site whose workspace was applied, and its backup. The next apply of a plan empties the state.
async fn applied(job: &WorkspaceJob) -> (FakeSite, Arc<MemoryStore>) {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    runs.run(job, apply()).await;
    let store = Arc::clone(&runs.store);
    site.with(|script| {
        script.changes = vec![("delete", "aws_vpc")];
        script.state = Some(state(2, &[]));
    });
    (site, store)
}

#[tokio::test]
async fn without_a_record_the_status_decides_whether_a_state_was_lost() {
    for (expects_state, message) in
        [(true, Some("neither in the workspace directory nor in a backup")), (false, None)]
    {
        let site = FakeSite::new();
        let mut runs = Runs::new(&site);
        assert!(runs.start_kind(&key(), destroy(expects_state)));
        let snapshot = runs.finished(&key()).await;
        match message {
            Some(message) => assert!(failure_message(&snapshot).contains(message), "{snapshot:?}"),
            None => assert!(matches!(snapshot.result, Some(RunResult::Destroyed)), "{snapshot:?}"),
        }
        assert!(site.journal.take().is_empty(), "terraform has nothing to do");
    }
}

#[tokio::test]
async fn a_destroy_needs_no_object_but_its_owner() {
    let (site, store) = applied(&job()).await;
    let mut runs = Runs::new(&site).with_store(&store);
    runs.start_kind(&key(), destroy(true));
    let snapshot = runs.finished(&key()).await;
    assert!(matches!(snapshot.result, Some(RunResult::Destroyed)), "{snapshot:?}");
    assert!(site.journal.has("destroy"));
    let last: serde_json::Value = serde_json::from_slice(&store.stored().state.unwrap()).unwrap();
    assert_eq!(last["serial"], 2, "the empty state is backed up");
}

#[tokio::test]
async fn a_new_disk_gets_the_bundle_and_the_state_from_the_backup() {
    let (before, store) = applied(&job()).await;
    drop(before);
    let site = FakeSite::new();
    site.with(|script| {
        script.changes = vec![("delete", "aws_vpc")];
        script.state = Some(state(2, &[]));
    });
    let mut runs = Runs::new(&site).with_store(&store);
    runs.start_kind(&key(), destroy(true));
    let snapshot = runs.finished(&key()).await;
    assert!(matches!(snapshot.result, Some(RunResult::Destroyed)), "{snapshot:?}");
    assert!(site.journal.has("destroy") && site.workspace().root().join("main.tf").exists());
}

#[tokio::test]
async fn the_resources_of_another_object_are_not_destroyed() {
    let job = WorkspaceJob { owner: "WorkspaceTemplateApply team/demo".to_owned(), ..job() };
    let (site, store) = applied(&job).await;
    site.journal.take();
    let mut runs = Runs::new(&site).with_store(&store);
    runs.start_kind(&key(), destroy(true));
    let snapshot = runs.finished(&key()).await;
    assert!(failure_message(&snapshot).contains("WorkspaceTemplateApply team/demo"), "{snapshot:?}");
    assert!(!site.journal.has("destroy"));
}

#[tokio::test]
async fn the_environment_of_the_template_is_sealed_for_the_destroy() {
    let mut job = job();
    job.resolved.env = vec![("TOKEN".to_owned(), "hidden".to_owned())];
    let (site, store) = applied(&job).await;
    let env = site.workspace().meta_dir().join("env.json");
    assert!(std::fs::read_to_string(&env).unwrap().contains("hidden"));
    std::fs::remove_file(&env).unwrap();
    let mut runs = Runs::new(&site).with_store(&store);
    runs.start_kind(&key(), destroy(true));
    let snapshot = runs.finished(&key()).await;
    assert!(failure_message(&snapshot).contains("environment variable TOKEN"), "{snapshot:?}");
    crate::pipeline::destroy_bundle::seal_env(&site.workspace(), &job.resolved.env).unwrap();
    runs.start_kind(&key(), destroy(true));
    let snapshot = runs.finished(&key()).await;
    assert!(matches!(snapshot.result, Some(RunResult::Destroyed)), "{snapshot:?}");
}

#[tokio::test]
async fn what_a_destroy_leaves_is_tried_again() {
    let (site, store) = applied(&job()).await;
    site.with(|script| script.state = Some(state(2, &[("aws_vpc", "ok")])));
    let mut runs = Runs::new(&site).with_store(&store);
    runs.start_kind(&key(), destroy(true));
    let snapshot = runs.finished(&key()).await;
    assert!(failure_message(&snapshot).contains("1 resource(s) remain"), "{snapshot:?}");
    let record = WorkspaceRecord::read(&site.workspace()).unwrap().unwrap();
    assert!(record.begun);
    site.with(|script| script.state = Some(state(3, &[])));
    runs.start_kind(&key(), destroy(true));
    assert!(matches!(runs.finished(&key()).await.result, Some(RunResult::Destroyed)));
}
