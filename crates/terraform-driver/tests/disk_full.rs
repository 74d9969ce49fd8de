//! A disk that fills up during an apply: a small tmpfs in a mount namespace of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::support::{RunHarness, shim, state};
use terraform_driver::{
    run::run_dir::RunDir,
    state::{StateRecovery, recover_state},
    workspace::WorkspaceDir,
};

/// Fills the disk, then does what terraform does when it cannot save its state.
const FILLS_THE_DISK: &str = r#"
dd if=/dev/zero of=filler bs=4k 2>/dev/null
printf '%s' "$DUMP" > terraform.tfstate || true
printf '%s' "$DUMP" > errored.tfstate || true
printf '{"@level":"error","@message":"Emergency state dump","type":"log","state":%s}\n' "$DUMP"
exit 1
"#;

#[expect(clippy::disallowed_methods, reason = "the test needs a process in a namespace of its own")]
fn in_mount_namespace(script: &str, dump: &str) -> Output {
    Command::new("unshare").args(["-m", "bash", "-ec", script]).env("DUMP", dump).output().unwrap()
}

/// Runs the shim in `disk`, a tmpfs of eight MiB, and copies its contents to `copy`.
fn run_on_small_disk(bench: &RunHarness, disk_reserve: u64, dump: &str) -> WorkspaceDir {
    let (disk, copy) = (bench.dir.path().join("disk"), bench.dir.path().join("copy"));
    fs::create_dir_all(&disk).unwrap();
    let mut spec = bench.spec(FILLS_THE_DISK);
    spec.cwd.clone_from(&disk);
    spec.snapshots = disk.join(".capt/state");
    spec.disk_reserve = disk_reserve;
    let prepared = RunDir::at(bench.dir.path().join("prepared"));
    fs::create_dir_all(prepared.path()).unwrap();
    prepared.write_spec(&spec).unwrap();
    let shown = |path: &Path| path.display().to_string();
    let script = format!(
        "mount -t tmpfs -o size=8m tmpfs {disk}; mkdir -p {disk}/.capt/runs; cp -r {run} {disk}/.capt/runs/1-apply; \
         {shim} {disk}/.capt/runs/1-apply < /dev/null || true; rm -f {disk}/filler; cp -r {disk} {copy}",
        disk = shown(&disk),
        run = shown(prepared.path()),
        shim = shown(&shim().program),
        copy = shown(&copy),
    );
    let output = in_mount_namespace(&script, dump);
    assert!(output.status.success(), "{output:?}");
    WorkspaceDir::at(copy)
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn is_permitted() -> bool {
    let permitted = in_mount_namespace("mount -t tmpfs tmpfs /mnt", "").status.success();
    if !permitted {
        eprintln!("skipped: this user may not mount a tmpfs in a namespace");
    }
    permitted
}

#[test]
fn a_state_that_fits_nowhere_else_is_saved_in_the_reserved_space() {
    if !is_permitted() {
        return;
    }
    let bench = RunHarness::new();
    let padding = "x".repeat(100_000);
    let object = format!(
        r#"{{"mode":"managed","type":"t","name":"n","instances":[{{"attributes":{{"password":"{padding}"}}}}]}}"#
    );
    let dump = state("a", 9, &object);
    let workspace = run_on_small_disk(&bench, 1 << 20, &dump);
    let run = RunDir::list(&workspace.runs_dir()).unwrap().remove(0);
    assert_eq!(run.exit().unwrap().and_then(|exit| exit.code), Some(1));
    assert!(!run.path().join("reserve").exists());
    let log = fs::read_to_string(run.events_path()).unwrap();
    assert!(log.len() < 1000, "the state leaves the log: {} bytes", log.len());
    let recovered = recover_state(&workspace).unwrap();
    assert_ne!(recovered.source, StateRecovery::NoState);
    assert_eq!(workspace.state().unwrap().unwrap().version.serial, 9);
}

#[test]
fn an_apply_does_not_start_without_the_space_to_save_its_state() {
    if !is_permitted() {
        return;
    }
    let bench = RunHarness::new();
    let workspace = run_on_small_disk(&bench, 16 << 20, "{}");
    let run = RunDir::list(&workspace.runs_dir()).unwrap().remove(0);
    let error = run.shim_error().unwrap().expect("the reason is written down");
    assert!(error.contains("no space left on the disk"), "{error}");
    assert!(!workspace.root().join("terraform.tfstate").exists(), "the engine did not start");
}
