//! The life of the local AWS beside the commands.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::harness::{SystemHarness, example_path};

/// Holds a lock file as its owner would.
fn hold_lock(path: &Path, holder: &str) -> File {
    fs::write(path, holder).unwrap();
    let lock = File::options().read(true).write(true).open(path).unwrap();
    lock.lock().unwrap();
    lock
}

/// The last run of a workspace, without its `process.json`.
fn anonymize_last_run(workspace: &Path) -> PathBuf {
    let runs = fs::read_dir(workspace.join(".capt/runs")).unwrap();
    let last = runs.map(|entry| entry.unwrap().path()).max().unwrap();
    fs::remove_file(last.join("process.json")).unwrap();
    last
}

#[test]
fn a_local_aws_that_lost_its_memory_is_recognised_and_explained() {
    let capt = SystemHarness::new();
    let file = example_path("templates.yaml");
    capt.run(&["apply", &file]).expect_success();
    assert!(capt.run(&["aws", "status"]).expect_success().stdout.starts_with("running at http://127.0.0.1:"));
    capt.run(&["aws", "stop"]).expect_success();

    let planned = capt.run(&["plan", &file]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stderr.contains("lost its resources"), "{}", planned.stderr);
    assert!(planned.stderr.contains("capt aws reset --data"), "{}", planned.stderr);
    assert_eq!(planned.stdout, "", "nothing was planned");

    capt.run(&["aws", "reset"]).expect_success();
    capt.run(&["apply", &file]).expect_success();
}

#[test]
fn two_data_directories_have_two_clouds() {
    let (one, two) = (SystemHarness::new(), SystemHarness::new());
    one.run(&["aws", "start"]).expect_success();
    two.run(&["aws", "start"]).expect_success();
    let endpoint = |capt: &SystemHarness| {
        capt.run(&["aws", "status", "-o", "json"]).expect_success().report()["endpoint"].clone()
    };
    assert_ne!(endpoint(&one), endpoint(&two));
    one.run(&["aws", "stop"]).expect_success();
    assert!(two.run(&["aws", "status"]).expect_success().stdout.starts_with("running"));
    assert_eq!(one.run(&["aws", "status"]).expect_success().stdout, "not running\n");
}

#[test]
fn of_commands_that_start_it_at_once_one_starts_it_and_all_find_it() {
    let capt = SystemHarness::new();
    let starting: Vec<_> = (0..3).map(|_| capt.start(&["aws", "start"])).collect();
    let said: Vec<_> =
        starting.into_iter().map(|child| SystemHarness::finish(child).expect_success().stderr).collect();
    let started = said.iter().filter(|text| text.contains("the local AWS started: ")).count();
    assert_eq!(started, 1, "{said:?}");
    let endpoint = capt.run(&["aws", "status", "-o", "json"]).expect_success().report()["endpoint"].clone();
    let endpoint = endpoint.as_str().unwrap();
    assert!(said.iter().all(|text| text.contains(endpoint)), "{endpoint}: {said:?}");
}

#[test]
fn it_is_not_stopped_under_a_capt_that_works_unless_by_force() {
    let capt = SystemHarness::new();
    capt.run(&["aws", "start"]).expect_success();
    let record = capt.data_dir().join("local-aws/server.json");
    let server = fs::read(&record).unwrap();

    let working = hold_lock(&capt.data_dir().join("lock"), "another capt (process 4711)");
    let refused = capt.run(&["aws", "stop"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for text in ["is in use by another capt (process 4711)", "wait until it finishes", "--force"] {
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
    }
    assert!(capt.run(&["aws", "status"]).expect_success().stdout.starts_with("running at "));
    assert_eq!(capt.run(&["aws", "stop", "--force"]).expect_success().stderr, "stopped the local AWS\n");
    assert_eq!(capt.run(&["aws", "status"]).expect_success().stdout, "not running\n");
    drop(working);

    fs::write(&record, server).unwrap();
    assert_eq!(capt.run(&["aws", "stop"]).expect_success().stderr, "the local AWS was not running\n");
    assert!(!record.exists(), "the record of a process that is gone");
}

#[test]
fn reset_spares_what_a_real_account_holds_and_what_terraform_works_on() {
    let capt = SystemHarness::new();
    capt.run(&["apply", &example_path("templates.yaml")]).expect_success();
    let workspaces = capt.data_dir().join("workspaces/default");
    let workspace = fs::read_dir(&workspaces).unwrap().next().unwrap().unwrap().path();
    let refused = |texts: &[&str]| {
        let said = capt.run(&["aws", "reset"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        for text in texts {
            assert!(said.stderr.contains(text), "{text:?} is missing: {}", said.stderr);
        }
        assert!(workspace.join(".capt/workspace.json").exists(), "its workspace is gone");
        assert!(capt.run(&["aws", "status"]).expect_success().stdout.starts_with("running at "));
    };

    let cloud = capt.data_dir().join("cloud.json");
    let local = fs::read(&cloud).unwrap();
    fs::write(&cloud, r#"{"account":"210987654321"}"#).unwrap();
    refused(&["belongs to the AWS account 210987654321", "capt destroy FILE --aws real --data"]);
    fs::write(&cloud, local).unwrap();

    let running = hold_lock(&anonymize_last_run(&workspace).join("lock"), "a running terraform");
    refused(&["terraform is still running in", &workspace.display().to_string(), "wait until it exits"]);
    drop(running);

    let working = hold_lock(&capt.data_dir().join("lock"), "another capt (process 4711)");
    refused(&["is in use by another capt (process 4711)"]);
    drop(working);

    capt.run(&["aws", "reset"]).expect_success();
    assert!(!workspace.exists());
    assert_eq!(capt.run(&["aws", "status"]).expect_success().stdout, "not running\n");
}
