//! Data directories that an older version wrote (`tests/fixtures/data-18630ad`) remain readable: objects, Secrets, states, run
//! directories, journal and sealed configurations.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process};

use super::harness::{SystemHarness, example_path, repository};

/// Unpacks a fixture as the data directory of the harness.
#[expect(clippy::disallowed_methods, reason = "tests unpack with the tool that packed")]
fn unpack(capt: &SystemHarness, fixture: &str) {
    let archive = repository().join("tests/fixtures/data-18630ad").join(fixture);
    std::fs::create_dir_all(capt.data_dir()).unwrap();
    let unpacked = Command::new("tar")
        .arg("xzf")
        .arg(archive)
        .args(["--strip-components=1", "-C"])
        .arg(capt.data_dir())
        .status()
        .unwrap();
    assert!(unpacked.success());
}

/// `capt kube` on the data directory, stopped when dropped.
struct EmbeddedApi {
    process: Child,
    kubeconfig: PathBuf,
}

impl EmbeddedApi {
    fn start(capt: &SystemHarness) -> Self {
        let mut process = capt.start(&["kube"]);
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.trim().is_empty(), "capt kube prints the path of a kubeconfig");
        Self { process, kubeconfig: Path::new(line.trim()).to_owned() }
    }
}

impl Drop for EmbeddedApi {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        let _already_gone = kill_process(pid, Signal::TERM);
        let _reaped = self.process.wait();
    }
}

#[test]
fn objects_and_histories_of_an_older_operator_are_read_and_its_clusters_can_be_deleted() {
    let capt = SystemHarness::new();
    unpack(&capt, "operator.tar.gz");
    {
        let api = EmbeddedApi::start(&capt);
        let history = "jsonpath={.status.history[*].id} {.status.conditions[?(@.type==\"Ready\")].status}";
        let vpc = capt
            .kubectl(&api.kubeconfig, &["get", "wtapply", "demo-vpc", "-n", "default", "-o", history])
            .expect_success();
        assert_eq!(vpc.stdout, "20261118T202626589Z True");
        let control_plane =
            capt.kubectl(&api.kubeconfig, &["get", "captcontrolplane", "demo"]).expect_success();
        assert!(control_plane.stdout.contains("v1.33"), "{}", control_plane.stdout);
    }
    // Deletion reads the states in the Secrets and on disk, the run directories and the sealed configurations. The local AWS of
    // that version is gone, so the resources are too.
    let down = capt.run(&["down"]).expect_success();
    assert!(down.stderr.contains("no resources are left"), "{}", down.stderr);
}

#[test]
fn a_run_that_was_killed_under_an_older_version_is_continued_with_its_state() {
    let capt = SystemHarness::new();
    unpack(&capt, "command-line.tar.gz");
    let plan = capt.run(&["plan", &example_path("quickstart.yaml")]).expect_success();
    let text = format!("{}{}", plan.stdout, plan.stderr);
    assert!(
        text.contains("aws_iam_role.cluster changed outside of terraform"),
        "the state of the killed run is known: {text}"
    );
}
