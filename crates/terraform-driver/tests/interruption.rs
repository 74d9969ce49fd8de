//! Detection of taints caused by an interruption, from the files of a run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::fs;

use crate::support::{RunHarness, state};
use terraform_driver::run::{
    RunHandle, interrupted_taints,
    run_dir::{RunExit, RunStop, StopReason},
};

const STOPPED: &str = "2026-11-16T02:00:30Z";

fn event(kind: &str, address: &str, second: u32) -> String {
    format!(
        r#"{{"@level":"info","@message":"m","@timestamp":"2026-11-16T02:00:{second:02}Z","type":"{kind}","hook":{{"resource":{{"addr":"{address}","resource_type":"aws_x"}},"action":"create"}}}}"#
    )
}

fn tainted(name: &str) -> String {
    format!(
        r#"{{"mode":"managed","type":"aws_x","name":"{name}","instances":[{{"status":"tainted","attributes":{{"id":"1"}}}}]}}"#
    )
}

/// A workspace whose last apply wrote these events and had this exit.
fn after(events: &[String], exit: Option<RunExit>) -> RunHarness {
    let bench = RunHarness::new();
    let resources: Vec<String> =
        ["coming", "failed", "provisioned", "old"].iter().map(|name| tainted(name)).collect();
    fs::write(bench.file("terraform.tfstate"), state("l", 3, &resources.join(","))).unwrap();
    let spec = bench.spec("");
    let dir = RunHandle::new_dir(&bench.workspace, &spec);
    fs::create_dir_all(dir.path()).unwrap();
    dir.write_spec(&spec).unwrap();
    fs::write(dir.events_path(), events.join("\n")).unwrap();
    if let Some(exit) = exit {
        dir.write_exit(&exit).unwrap();
    }
    bench
}

fn said() -> Vec<String> {
    vec![
        event("apply_start", "aws_x.failed", 1),
        event("apply_errored", "aws_x.failed", 10),
        event("apply_start", "aws_x.provisioned", 11),
        event("provision_start", "aws_x.provisioned", 12),
        event("apply_start", "aws_x.coming", 20),
        event("apply_errored", "aws_x.coming", 31),
    ]
}

fn exit(stopped: bool, code: Option<i32>) -> RunExit {
    let at = STOPPED.parse().unwrap();
    let stop = stopped.then_some(RunStop { reason: StopReason::Requested, at, killed: false });
    RunExit { code, signal: None, stop, finished: at, trouble: Vec::new() }
}

#[test]
fn only_what_was_coming_up_when_the_stop_came_is_ours() {
    let bench = after(&said(), Some(exit(true, Some(1))));
    assert_eq!(interrupted_taints(&bench.workspace).unwrap(), ["aws_x.coming"]);
}

#[test]
fn after_a_kill_what_had_not_ended_is_ours() {
    let bench = after(&said()[..5], None);
    assert_eq!(interrupted_taints(&bench.workspace).unwrap(), ["aws_x.coming"]);
}

#[test]
fn a_run_that_failed_by_itself_leaves_its_taints_alone() {
    let bench = after(&said(), Some(exit(false, Some(1))));
    assert_eq!(interrupted_taints(&bench.workspace).unwrap(), Vec::<String>::new());
}
