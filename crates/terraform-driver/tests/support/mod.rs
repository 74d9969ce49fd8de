//! A workspace in a temporary directory and a scripted engine to run in it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use terraform_driver::{
    clock,
    exec::ShimProgram,
    run::{
        RunCompletion, RunHandle,
        run_dir::{RunDir, RunSpec},
    },
    workspace::WorkspaceDir,
};
use tokio_util::sync::CancellationToken;

/// Timeout for hangs; no test measures durations.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) struct RunHarness {
    pub(crate) dir: TempDir,
    pub(crate) workspace: WorkspaceDir,
}

impl RunHarness {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceDir::at(dir.path().join("ws"));
        workspace.sync_files([]).unwrap();
        Self { dir, workspace }
    }

    /// A run of a shell script in place of terraform.
    pub(crate) fn spec(&self, script: &str) -> RunSpec {
        let program = self.dir.path().join("engine");
        fs::write(&program, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        RunSpec {
            command: "apply".into(),
            program,
            args: vec![],
            cwd: self.workspace.root().into(),
            created: clock::now(),
            grace: HANG_TIMEOUT,
            silence: None,
            deadline: None,
            snapshots: self.workspace.meta_dir().join("state"),
            disk_reserve: 0,
            lease: None,
            max_log: None,
        }
    }

    pub(crate) fn start(&self, spec: &RunSpec) -> RunHandle {
        let dir = RunHandle::new_dir(&self.workspace, spec);
        RunHandle::start(&self.workspace, spec, dir, &env(), &shim()).unwrap()
    }

    pub(crate) async fn finish(&self, spec: &RunSpec) -> (RunCompletion, String) {
        follow(self.start(spec), &CancellationToken::new()).await
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < HANG_TIMEOUT, "waited for {what}; {}", self.shown());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Files of the workspace and the last output of its runs.
    fn shown(&self) -> String {
        let files = fs::read_dir(self.workspace.root()).into_iter().flatten().flatten();
        let files: Vec<_> = files.map(|it| it.file_name()).collect();
        let runs = RunDir::list(&self.workspace.runs_dir()).unwrap_or_default();
        let logs = runs.iter().map(|run| fs::read_to_string(run.events_path()).unwrap_or_default());
        let logs: Vec<String> = logs.map(|log| tail(&log)).collect();
        format!("the workspace has {files:?}, its runs said\n{}", logs.join("\n---\n"))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.workspace.root().join(name)
    }
}

pub(crate) async fn follow(run: RunHandle, stop: &CancellationToken) -> (RunCompletion, String) {
    let mut heard = Vec::new();
    let following = run.follow(stop, |bytes| heard.extend_from_slice(bytes));
    let ended = tokio::time::timeout(HANG_TIMEOUT, following).await;
    let heard = String::from_utf8_lossy(&heard).into_owned();
    let ended = ended.unwrap_or_else(|_| panic!("the run does not end; it said\n{}", tail(&heard)));
    (ended.unwrap(), heard)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

pub(crate) fn shim() -> ShimProgram {
    ShimProgram { program: env!("CARGO_BIN_EXE_terraform-shim").into(), args: vec![] }
}

pub(crate) fn env() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())])
}

pub(crate) fn state(lineage: &str, serial: u64, resources: &str) -> String {
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[{resources}]}}"#
    )
}

pub(crate) fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

pub(crate) fn read_pid(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
