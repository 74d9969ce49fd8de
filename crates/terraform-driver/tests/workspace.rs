//! Workspace directory: file sync, seal and unseal, locks, snapshots, recovery.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{RunHarness, state};
use terraform_driver::{
    state::{SnapshotOutcome, StateRecovery, StateRecoveryError, recover_state},
    workspace::{FileToWrite, LockError, WorkspaceError},
};

fn file<'a>(path: &'a str, text: &'a str) -> FileToWrite<'a> {
    FileToWrite { path, bytes: text.as_bytes(), secret: path.contains("tfvars") }
}

#[test]
fn a_stale_file_goes_and_a_persons_own_file_stays() {
    let bench = RunHarness::new();
    bench.workspace.sync_files([file("main.tf", "one"), file("old.tf", "x"), file("sub/a.tf", "y")]).unwrap();
    fs::write(bench.file("mine.tf"), "a person's").unwrap();
    bench.workspace.sync_files([file("main.tf", "two")]).unwrap();
    assert_eq!(fs::read_to_string(bench.file("main.tf")).unwrap(), "two");
    assert!(!bench.file("old.tf").exists() && !bench.file("sub/a.tf").exists());
    assert!(bench.file("mine.tf").exists());
}

#[test]
fn secrets_are_for_our_eyes_and_so_is_the_directory() {
    let bench = RunHarness::new();
    bench.workspace.sync_files([file("terraform.tfvars.json", "{}")]).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.file("terraform.tfvars.json")), 0o600);
    assert_eq!(mode(bench.workspace.dir()), 0o700);
}

#[test]
fn nothing_is_written_outside_or_into_our_own_part() {
    let bench = RunHarness::new();
    for path in ["../escape.tf", "/etc/passwd", "a/../../b", ".capt/lock", ""] {
        let error = bench.workspace.sync_files([file(path, "x")]).unwrap_err();
        assert!(matches!(error, WorkspaceError::Escapes { .. }), "{path}: {error}");
    }
}

#[test]
fn what_was_sealed_comes_back_whatever_was_rendered_since() {
    let bench = RunHarness::new();
    bench.workspace.sync_files([file("main.tf", "applied"), file("terraform.tfvars.json", "{}")]).unwrap();
    bench.workspace.seal().unwrap();
    bench.workspace.sync_files([file("main.tf", "only planned"), file("new.tf", "z")]).unwrap();
    bench.workspace.unseal().unwrap();
    assert_eq!(fs::read_to_string(bench.file("main.tf")).unwrap(), "applied");
    assert!(bench.file("terraform.tfvars.json").exists());
    assert!(!bench.file("new.tf").exists());
}

#[test]
fn a_lock_is_held_until_its_owner_is_gone() {
    let bench = RunHarness::new();
    let lock = bench.workspace.lock("the first").unwrap();
    match bench.workspace.lock("the second") {
        Err(LockError::Held { holder, .. }) => assert_eq!(holder, "the first"),
        other => panic!("{other:?}"),
    }
    drop(lock);
    bench.workspace.lock("the second").unwrap();
}

#[test]
fn copies_follow_one_history_forward() {
    let bench = RunHarness::new();
    let copies = bench.workspace.snapshots();
    let held = r#"{"mode":"managed","type":"t","name":"n","instances":[{"attributes":{}}]}"#;
    assert_eq!(copies.store_if_newer(state("a", 3, held).as_bytes()).unwrap(), SnapshotOutcome::Stored(3));
    assert_eq!(
        copies.store_if_newer(state("a", 3, held).as_bytes()).unwrap(),
        SnapshotOutcome::AlreadyStored
    );
    assert_eq!(
        copies.store_if_newer(state("a", 2, held).as_bytes()).unwrap(),
        SnapshotOutcome::AlreadyStored
    );
    assert_eq!(copies.store_if_newer(b"{\"serial\": 9").unwrap(), SnapshotOutcome::Incomplete);
    assert_eq!(
        copies.store_if_newer(state("b", 1, held).as_bytes()).unwrap(),
        SnapshotOutcome::ForeignLineage
    );
    assert_eq!(copies.store_if_newer(state("a", 4, "").as_bytes()).unwrap(), SnapshotOutcome::Stored(4));
    // The old lineage ended without resources, so a new one is accepted.
    assert_eq!(copies.store_if_newer(state("b", 1, held).as_bytes()).unwrap(), SnapshotOutcome::Stored(1));
    for serial in 2..40 {
        copies.store_if_newer(state("b", serial, held).as_bytes()).unwrap();
    }
    assert_eq!(fs::read_dir(bench.workspace.meta_dir().join("state")).unwrap().count(), 10);
}

#[test]
fn the_furthest_state_wins() {
    let bench = RunHarness::new();
    let now = || recover_state(&bench.workspace).map(|it| it.source);
    assert_eq!(now().unwrap(), StateRecovery::NoState);
    fs::write(bench.file("terraform.tfstate"), state("a", 5, "")).unwrap();
    assert_eq!(now().unwrap(), StateRecovery::Intact(5));
    fs::write(bench.file("terraform.tfstate"), "{\"ver").unwrap();
    assert_eq!(now().unwrap(), StateRecovery::FromSnapshot { serial: 5, problem: "torn" });
    fs::remove_file(bench.file("terraform.tfstate")).unwrap();
    assert_eq!(now().unwrap(), StateRecovery::FromSnapshot { serial: 5, problem: "missing" });
    fs::write(bench.file("terraform.tfstate"), state("a", 4, "")).unwrap();
    assert_eq!(now().unwrap(), StateRecovery::FromSnapshot { serial: 5, problem: "behind" });
    fs::write(bench.file("errored.tfstate"), state("a", 6, "")).unwrap();
    assert_eq!(now().unwrap(), StateRecovery::FromErrored(6));
    assert!(!bench.file("errored.tfstate").exists());
    let held = r#"{"mode":"managed","type":"t","name":"n","instances":[{"attributes":{}}]}"#;
    fs::write(bench.file("terraform.tfstate"), state("a", 7, held)).unwrap();
    now().unwrap();
    fs::write(bench.file("errored.tfstate"), state("other", 9, "")).unwrap();
    assert!(
        matches!(now(), Err(StateRecoveryError::ForeignLineage { .. })),
        "nothing is planned while that is unclear"
    );
}

#[test]
fn a_configuration_is_sealed_until_it_changes() {
    let bench = RunHarness::new();
    bench.workspace.sync_files([file("main.tf", "one")]).unwrap();
    assert!(!bench.workspace.is_sealed().unwrap());
    bench.workspace.seal().unwrap();
    assert!(bench.workspace.is_sealed().unwrap());
    bench.workspace.sync_files([file("main.tf", "two")]).unwrap();
    assert!(!bench.workspace.is_sealed().unwrap());
    bench.workspace.sync_files([file("main.tf", "one"), file("more.tf", "")]).unwrap();
    assert!(!bench.workspace.is_sealed().unwrap());
}

#[test]
fn h2_a_state_in_an_older_sealed_configuration_never_replaces_the_live_one() {
    let bench = RunHarness::new();
    let root = bench.workspace.root().to_owned();
    bench.workspace.sync_files([file("main.tf", "one")]).unwrap();
    bench.workspace.seal().unwrap();
    // An earlier version rendered and sealed the state of the module.
    let list = serde_json::json!(["main.tf", "terraform.tfstate"]).to_string();
    for name in ["files.json", "sealed.json"] {
        fs::write(root.join(".capt").join(name), &list).unwrap();
    }
    fs::write(root.join(".capt/sealed/terraform.tfstate"), "old").unwrap();
    fs::write(root.join("terraform.tfstate"), "live").unwrap();
    let live = || fs::read_to_string(root.join("terraform.tfstate")).unwrap();
    bench.workspace.unseal().unwrap();
    assert_eq!(live(), "live");
    bench.workspace.sync_files([file("main.tf", "two")]).unwrap();
    assert_eq!(live(), "live", "it is not removed as a stale file either");
    let refused = bench.workspace.sync_files([file("a/terraform.tfstate", "{}")]).unwrap_err();
    assert!(refused.to_string().contains("reserved"), "{refused}");
}
