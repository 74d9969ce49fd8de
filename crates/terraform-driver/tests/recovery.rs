//! Recovery of the state from what a full disk, a kill or a second history leaves behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::fs;

use crate::support::{RunHarness, state};
use terraform_driver::{
    run::{RunHandle, run_dir::RunDir},
    state::{StateRecovery, StateRecoveryError, recover_state},
};

const HELD: &str = r#"{"mode":"managed","type":"t","name":"n","instances":[{"attributes":{}}]}"#;
const OTHER: &str = r#"{"mode":"managed","type":"t","name":"other","instances":[{"attributes":{}}]}"#;

fn recover(bench: &RunHarness) -> Result<StateRecovery, StateRecoveryError> {
    recover_state(&bench.workspace).map(|it| it.source)
}

/// Files that were set aside, with their contents.
fn set_aside(bench: &RunHarness) -> Vec<String> {
    let dir = bench.workspace.meta_dir().join("state/set-aside");
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
}

fn hook(kind: &str, address: &str, action: &str) -> String {
    format!(
        r#"{{"@level":"info","@message":"m","type":"{kind}","hook":{{"resource":{{"addr":"{address}","resource_type":"t"}},"action":"{action}"}}}}"#
    )
}

/// An apply that wrote these events and whose shim was killed.
fn apply_that_said(bench: &RunHarness, second: u32, events: &[String]) -> RunDir {
    let mut spec = bench.spec("");
    spec.created = format!("2026-11-16T02:00:{second:02}Z").parse().unwrap();
    let dir = RunHandle::new_dir(&bench.workspace, &spec);
    fs::create_dir_all(dir.path()).unwrap();
    dir.write_spec(&spec).unwrap();
    fs::write(dir.events_path(), events.join("\n")).unwrap();
    dir
}

#[test]
fn an_empty_or_torn_errored_state_is_set_aside_and_the_newest_version_is_used() {
    for torn in ["", "{\"version\":4,\"serial\":9,\"lin"] {
        let bench = RunHarness::new();
        fs::write(bench.file("terraform.tfstate"), state("a", 5, HELD)).unwrap();
        fs::write(bench.file("errored.tfstate"), torn).unwrap();
        assert_eq!(recover(&bench).unwrap(), StateRecovery::Intact(5), "{torn:?}");
        assert!(!bench.file("errored.tfstate").exists());
        assert_eq!(set_aside(&bench), [torn]);
    }
}

#[test]
fn a_full_disk_that_tore_both_files_leaves_the_newest_snapshot() {
    let bench = RunHarness::new();
    bench.workspace.snapshots().store_if_newer(state("a", 7, HELD).as_bytes()).unwrap();
    fs::write(bench.file("terraform.tfstate"), "").unwrap();
    fs::write(bench.file("errored.tfstate"), "").unwrap();
    assert_eq!(recover(&bench).unwrap(), StateRecovery::FromSnapshot { serial: 7, problem: "torn" });
    assert_eq!(recover(&bench).unwrap(), StateRecovery::Intact(7), "once is enough");
}

#[test]
fn an_empty_state_file_is_refused_where_an_apply_completed_objects() {
    let bench = RunHarness::new();
    apply_that_said(
        &bench,
        1,
        &[hook("apply_complete", "t.one", "create"), hook("apply_complete", "t.two", "create")],
    );
    fs::write(bench.file("terraform.tfstate"), "").unwrap();
    let message = recover(&bench).unwrap_err().to_string();
    assert!(message.contains("2 objects") && message.contains("terraform.tfstate"), "{message}");
    assert!(message.contains(&bench.workspace.dir().display().to_string()), "{message}");
    fs::remove_file(bench.file("terraform.tfstate")).unwrap();
    recover(&bench).unwrap_err();
    fs::write(bench.file("terraform.tfstate"), state("a", 3, HELD)).unwrap();
    assert_eq!(recover(&bench).unwrap(), StateRecovery::Intact(3), "a restored file is a way forward");
}

#[test]
fn objects_that_were_destroyed_since_are_no_evidence() {
    let bench = RunHarness::new();
    apply_that_said(&bench, 1, &[hook("apply_complete", "t.one", "create")]);
    apply_that_said(
        &bench,
        2,
        &[hook("apply_start", "t.one", "delete"), hook("apply_complete", "t.one", "delete")],
    );
    fs::write(bench.file("terraform.tfstate"), "").unwrap();
    assert_eq!(recover(&bench).unwrap(), StateRecovery::NoState);
}

#[test]
fn a_workspace_killed_before_its_first_object_starts_fresh() {
    for torn in ["", "{\"version\":4,\"terraform_version\":\"1.1"] {
        let bench = RunHarness::new();
        apply_that_said(&bench, 1, &[hook("apply_start", "t.one", "create")]);
        fs::write(bench.file("terraform.tfstate"), torn).unwrap();
        assert_eq!(recover(&bench).unwrap(), StateRecovery::NoState, "{torn:?}");
    }
}

#[test]
fn a_torn_state_that_names_an_object_is_refused_without_a_copy() {
    let bench = RunHarness::new();
    let whole = state("a", 5, HELD);
    fs::write(bench.file("terraform.tfstate"), &whole[..whole.len() - 4]).unwrap();
    let message = recover(&bench).unwrap_err().to_string();
    assert!(message.contains("terraform.tfstate"), "{message}");
}

#[test]
fn damaged_snapshots_are_evidence_of_objects() {
    let bench = RunHarness::new();
    bench.workspace.snapshots().store_if_newer(state("a", 5, HELD).as_bytes()).unwrap();
    let (_, copy) = bench.workspace.snapshots().newest().unwrap().unwrap();
    fs::write(copy, "").unwrap();
    fs::write(bench.file("terraform.tfstate"), "").unwrap();
    recover(&bench).unwrap_err();
}

#[test]
fn an_equal_serial_with_other_contents_is_a_fork_that_names_both_files() {
    let bench = RunHarness::new();
    bench.workspace.snapshots().store_if_newer(state("a", 5, HELD).as_bytes()).unwrap();
    fs::write(bench.file("terraform.tfstate"), state("a", 5, OTHER)).unwrap();
    let message = recover(&bench).unwrap_err().to_string();
    let (_, copy) = bench.workspace.snapshots().newest().unwrap().unwrap();
    assert!(message.contains(&copy.display().to_string()) && message.contains("serial 5"), "{message}");
    assert!(message.contains(&bench.file("terraform.tfstate").display().to_string()), "{message}");
}

#[test]
fn a_state_of_another_lineage_is_a_fork_while_both_hold_objects() {
    let bench = RunHarness::new();
    bench.workspace.snapshots().store_if_newer(state("a", 5, HELD).as_bytes()).unwrap();
    fs::write(bench.file("terraform.tfstate"), state("b", 9, HELD)).unwrap();
    recover(&bench).unwrap_err();
    assert_eq!(fs::read_to_string(bench.file("terraform.tfstate")).unwrap(), state("b", 9, HELD));
}

#[test]
fn the_same_contents_in_another_layout_are_no_fork() {
    let bench = RunHarness::new();
    bench.workspace.snapshots().store_if_newer(state("a", 5, HELD).as_bytes()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&state("a", 5, HELD)).unwrap();
    fs::write(bench.file("terraform.tfstate"), format!("{value:#}\n")).unwrap();
    assert_eq!(recover(&bench).unwrap(), StateRecovery::Intact(5));
}

#[tokio::test]
async fn a_run_that_writes_a_serial_twice_does_not_fork_with_itself() {
    let bench = RunHarness::new();
    let (first, second) = (state("a", 5, HELD), state("a", 5, OTHER));
    let snapshots = bench.spec("").snapshots;
    let script = format!(
        "kept() {{ until grep -qs \"$1\" {}/*.tfstate; do sleep 0.02; done; }}\n\
         echo '{first}' > terraform.tfstate; kept '\"name\":\"n\"'\n\
         echo '{second}' > terraform.tfstate; kept '\"name\":\"other\"'",
        snapshots.display()
    );
    bench.finish(&bench.spec(&script)).await;
    assert_eq!(recover(&bench).unwrap(), StateRecovery::Intact(5));
}

#[tokio::test]
async fn a_torn_emergency_dump_leaves_the_log() {
    let bench = RunHarness::new();
    let dumped = state(
        "a",
        9,
        r#"{"mode":"managed","type":"secret","name":"x","instances":[{"attributes":{"password":"hunter2"}}]}"#,
    );
    let line =
        format!(r#"{{"@level":"error","@message":"Emergency state dump","type":"log","state":{dumped}}}"#);
    let script = format!("printf '%s' '{}'\nexit 1", &line[..line.len() - 7]);
    bench.finish(&bench.spec(&script)).await;
    let run = RunDir::list(&bench.workspace.runs_dir()).unwrap().remove(0);
    let log = fs::read_to_string(run.events_path()).unwrap();
    assert!(!log.contains("hunter2") && log.contains("incomplete"), "{log}");
    assert!(set_aside(&bench).iter().any(|text| text.contains("hunter2")), "a person can still inspect it");
}
