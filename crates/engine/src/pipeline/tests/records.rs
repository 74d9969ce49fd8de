//! Outcomes as users read them, and the list of workspaces.

use std::collections::BTreeSet;

use capt_model::workspaces::WorkspaceKey;
use terraform_driver::{plan::ChangeCounts, run::run_dir::RunDir, workspace::FileLock};

use super::*;
use crate::pipeline::{list_workspaces, list_workspaces_with_resources, remove_all_workspaces};

#[test]
fn an_outcome_is_told_in_numbers() {
    let counts = ChangeCounts { add: 2, change: 1, replace: 3, destroy: 4, ..ChangeCounts::default() };
    let table = [
        (WorkspaceOutcome::Unchanged, "no changes"),
        (WorkspaceOutcome::Applied(counts), "2 added, 1 changed, 3 replaced, 4 destroyed"),
        (WorkspaceOutcome::Applied(ChangeCounts::default()), "outputs changed"),
        (
            WorkspaceOutcome::Deferred { reason: "net is not applied".to_owned() },
            "deferred: net is not applied",
        ),
        (WorkspaceOutcome::Destroyed { objects: 0 }, "nothing to destroy"),
        (WorkspaceOutcome::Destroyed { objects: 7 }, "7 destroyed"),
        (WorkspaceOutcome::Retained, "retained"),
    ];
    for (outcome, text) in table {
        assert_eq!(outcome.to_string(), text);
    }
}

fn with_resources(site: &FakeSite) -> BTreeSet<WorkspaceKey> {
    list_workspaces_with_resources(site.path()).unwrap().into_iter().map(|(key, _)| key).collect()
}

#[tokio::test]
async fn a_workspace_may_hold_resources_unless_that_is_known_to_be_wrong() {
    let site = FakeSite::new();
    assert!(list_workspaces(site.path()).unwrap().is_empty());
    run(&site, Goal::Plan).await.unwrap();
    let ours = BTreeSet::from([key()]);
    assert_eq!(list_workspaces(site.path()).unwrap().len(), 1);
    assert!(with_resources(&site).is_empty(), "only planned");
    site.put_state(&state(1, &[("aws_vpc", "ok")]));
    assert_eq!(with_resources(&site), ours);
    site.put_state(&state(2, &[]));
    assert!(with_resources(&site).is_empty(), "destroyed");
    site.put_state("{ torn");
    assert_eq!(with_resources(&site), ours, "unreadable");
    site.put_state(&state(2, &[]));
    let errored = site.workspace().root().join("errored.tfstate");
    std::fs::write(&errored, "{}").unwrap();
    assert_eq!(with_resources(&site), ours, "terraform could not save its state");
    std::fs::remove_file(errored).unwrap();
    let newer = state(3, &[("aws_vpc", "ok")]);
    site.workspace().snapshots().store_if_newer(newer.as_bytes()).unwrap();
    assert_eq!(with_resources(&site), ours, "a snapshot is newer than the file");
}

#[tokio::test]
async fn a_workspace_in_a_remote_backend_holds_resources_until_it_is_destroyed() {
    let site = FakeSite::new();
    run(&site, Goal::Plan).await.unwrap();
    for (begun, holds) in [(false, false), (true, true)] {
        let record = WorkspaceRecord { remote_state: true, begun, ..record(&site) };
        record.write(&site.workspace()).unwrap();
        assert_eq!(!with_resources(&site).is_empty(), holds, "begun: {begun}");
    }
}

#[tokio::test]
async fn a_live_command_may_create_resources() {
    let site = FakeSite::new();
    run(&site, Goal::Plan).await.unwrap();
    let dir = RunDir::at(site.workspace().runs_dir().join("20261101T100000000Z-apply"));
    std::fs::create_dir_all(dir.path()).unwrap();
    let alive = FileLock::acquire(&dir.lock_path(), "a running terraform").unwrap();
    assert_eq!(with_resources(&site), BTreeSet::from([key()]));
    drop(alive);
    assert!(with_resources(&site).is_empty());
}

#[tokio::test]
async fn all_workspaces_are_removed_and_counted() {
    let site = FakeSite::new();
    assert_eq!(remove_all_workspaces(site.path()).unwrap(), 0);
    run(&site, Goal::Plan).await.unwrap();
    let other = WorkspaceJob { key: WorkspaceKey::new("team", "other"), ..job() };
    run_with(&site, &other, Goal::Plan, HookScript::default()).await.0.unwrap();
    assert_eq!(remove_all_workspaces(site.path()).unwrap(), 2);
    assert!(list_workspaces(site.path()).unwrap().is_empty());
}

#[tokio::test]
async fn a_record_of_an_older_release_is_read() {
    let site = FakeSite::new();
    std::fs::create_dir_all(site.workspace().meta_dir()).unwrap();
    let old = serde_json::json!({
        "owner": "CAPTCluster team/demo", "role": "vpc", "eks_cluster": null, "region": "eu-central-1",
        "after": [], "root": "", "configuration": "c", "installation": "i",
    });
    std::fs::write(site.workspace().meta_dir().join("workspace.json"), old.to_string()).unwrap();
    let record = record(&site);
    assert_eq!((record.remote_state, record.begun, record.retained), (false, false, false));
    assert!(record.env.is_empty());
    assert_eq!(record.digests().installation, "i");
}
