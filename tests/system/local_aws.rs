//! The life of the local AWS beside the commands.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::capt::{Capt, example};

/// Holds a lock file as its owner would.
fn hold(path: &Path, holder: &str) -> File {
    fs::write(path, holder).unwrap();
    let lock = File::options().read(true).write(true).open(path).unwrap();
    lock.lock().unwrap();
    lock
}

/// The run that a workspace had last, made to look as if nobody recorded who carries it.
fn last_run(workspace: &Path) -> PathBuf {
    let runs = fs::read_dir(workspace.join(".capt/runs")).unwrap();
    let last = runs.map(|entry| entry.unwrap().path()).max().unwrap();
    fs::remove_file(last.join("process.json")).unwrap();
    last
}

#[test]
fn a_local_aws_that_lost_its_memory_is_recognised_and_explained() {
    let capt = Capt::new();
    let file = example("templates.yaml");
    capt.run(&["apply", &file]).ok();
    assert!(capt.run(&["aws", "status"]).ok().stdout.starts_with("running at http://127.0.0.1:"));
    capt.run(&["aws", "stop"]).ok();

    let planned = capt.run(&["plan", &file]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stderr.contains("what it held is gone"), "{}", planned.stderr);
    assert!(planned.stderr.contains("capt aws reset --data"), "{}", planned.stderr);
    assert_eq!(planned.stdout, "", "nothing was planned");

    capt.run(&["aws", "reset"]).ok();
    capt.run(&["apply", &file]).ok();
}

#[test]
fn two_data_directories_have_two_clouds() {
    let (one, two) = (Capt::new(), Capt::new());
    one.run(&["aws", "start"]).ok();
    two.run(&["aws", "start"]).ok();
    let endpoint = |capt: &Capt| capt.run(&["aws", "status", "-o", "json"]).ok().report()["endpoint"].clone();
    assert_ne!(endpoint(&one), endpoint(&two));
    one.run(&["aws", "stop"]).ok();
    assert!(two.run(&["aws", "status"]).ok().stdout.starts_with("running"));
    assert_eq!(one.run(&["aws", "status"]).ok().stdout, "not running\n");
}

#[test]
fn of_commands_that_start_it_at_once_one_starts_it_and_all_find_it() {
    let capt = Capt::new();
    let starting: Vec<_> = (0..3).map(|_| capt.start(&["aws", "start"])).collect();
    let said: Vec<_> = starting.into_iter().map(|child| Capt::finish(child).ok().stderr).collect();
    let started = said.iter().filter(|text| text.contains("the local AWS started: ")).count();
    assert_eq!(started, 1, "{said:?}");
    let endpoint = capt.run(&["aws", "status", "-o", "json"]).ok().report()["endpoint"].clone();
    let endpoint = endpoint.as_str().unwrap();
    assert!(said.iter().all(|text| text.contains(endpoint)), "{endpoint}: {said:?}");
}

#[test]
fn it_is_not_stopped_under_a_capt_that_works_unless_by_force() {
    let capt = Capt::new();
    capt.run(&["aws", "start"]).ok();
    let record = capt.data().join("local-aws/server.json");
    let server = fs::read(&record).unwrap();

    let working = hold(&capt.data().join("lock"), "another capt (process 4711)");
    let refused = capt.run(&["aws", "stop"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for text in ["is in use by another capt (process 4711)", "wait until it is done", "--force"] {
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
    }
    assert!(capt.run(&["aws", "status"]).ok().stdout.starts_with("running at "));
    assert_eq!(capt.run(&["aws", "stop", "--force"]).ok().stderr, "the local AWS is stopped\n");
    assert_eq!(capt.run(&["aws", "status"]).ok().stdout, "not running\n");
    drop(working);

    fs::write(&record, server).unwrap();
    assert_eq!(capt.run(&["aws", "stop"]).ok().stderr, "the local AWS was not running\n");
    assert!(!record.exists(), "the record of a process that is gone");
}

#[test]
fn reset_spares_what_a_real_account_holds_and_what_terraform_works_on() {
    let capt = Capt::new();
    capt.run(&["apply", &example("templates.yaml")]).ok();
    let workspaces = capt.data().join("workspaces/default");
    let workspace = fs::read_dir(&workspaces).unwrap().next().unwrap().unwrap().path();
    let refused = |texts: &[&str]| {
        let said = capt.run(&["aws", "reset"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        for text in texts {
            assert!(said.stderr.contains(text), "{text:?} is missing: {}", said.stderr);
        }
        assert!(workspace.join(".capt/workspace.json").exists(), "its workspace is gone");
        assert!(capt.run(&["aws", "status"]).ok().stdout.starts_with("running at "));
    };

    let cloud = capt.data().join("cloud.json");
    let local = fs::read(&cloud).unwrap();
    fs::write(&cloud, r#"{"account":"210987654321"}"#).unwrap();
    refused(&["belongs to the AWS account 210987654321", "capt destroy FILE --aws real --data"]);
    fs::write(&cloud, local).unwrap();

    let running = hold(&last_run(&workspace).join("lock"), "a running terraform");
    refused(&["a terraform still runs in", &workspace.display().to_string(), "wait for it"]);
    drop(running);

    let working = hold(&capt.data().join("lock"), "another capt (process 4711)");
    refused(&["is in use by another capt (process 4711)"]);
    drop(working);

    capt.run(&["aws", "reset"]).ok();
    assert!(!workspace.exists());
    assert_eq!(capt.run(&["aws", "status"]).ok().stdout, "not running\n");
}
