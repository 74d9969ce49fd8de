//! Processes that live and keep silent, and records of processes that do not live.

use std::collections::BTreeMap;

use terraform_driver::{
    exec::ProcessId,
    workspace::{FileLock, files::write_json},
};

use super::*;

/// A data directory whose record names `process`, at an address where nobody answers.
fn recorded(data: &Path, process: ProcessId) -> LocalAwsDaemon {
    let process_env =
        ProcessEnv { env: BTreeMap::new(), cwd: data.to_owned(), exe: PathBuf::from("/nonexistent/capt") };
    let aws = LocalAwsDaemon::new(&process_env, data);
    create_private_dir(aws.files.dir()).unwrap();
    let server = LocalAwsRecord {
        process,
        endpoint: "http://127.0.0.1:1".to_owned(),
        instance: "one".to_owned(),
        started: terraform_driver::clock::now(),
    };
    write_json(&aws.files.server_file(), &server).unwrap();
    aws
}

fn living() -> ProcessId {
    ProcessId::from_pid(std::process::id()).unwrap()
}

/// Our own id, of a process that began at another time.
fn dead() -> ProcessId {
    ProcessId { started: 1, ..living() }
}

#[tokio::test]
async fn a_living_server_that_keeps_silent_is_an_error_with_a_remedy() {
    let data = tempfile::tempdir().unwrap();
    let aws = recorded(data.path(), living());
    let error = aws.responding_within(Duration::from_millis(300)).await.unwrap_err().to_string();
    let (pid, stop) = (std::process::id(), format!("`capt aws stop --data {}`", data.path().display()));
    for text in [&format!("process {pid}"), "has not responded", "retry when", &stop] {
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_silent_server_that_ends_while_it_is_asked_is_not_running() {
    let data = tempfile::tempdir().unwrap();
    let aws = recorded(data.path(), living());
    let record = aws.files.server_file();
    let (found, ()) = tokio::join!(aws.responding_within(Duration::from_mins(2)), async {
        sleep(Duration::from_millis(300)).await;
        fs::remove_file(record).unwrap();
    });
    assert!(found.unwrap().is_none());
}

#[tokio::test]
async fn the_record_of_a_dead_server_is_removed_by_stop() {
    let data = tempfile::tempdir().unwrap();
    let aws = recorded(data.path(), dead());
    assert!(aws.running().await.unwrap().is_none());
    assert!(aws.files.server_file().exists(), "asking changes nothing");
    assert!(!aws.stop().await.unwrap());
    assert!(!aws.files.server_file().exists());
}

#[tokio::test]
async fn a_server_that_comes_up_is_waited_for_by_stop() {
    let data = tempfile::tempdir().unwrap();
    let aws = recorded(data.path(), dead());
    let lock = FileLock::acquire(&aws.files.dir().join("lock"), "a local AWS that comes up").unwrap();
    let (stopped, ()) = tokio::join!(aws.stop(), async {
        sleep(Duration::from_millis(300)).await;
        assert!(aws.files.server_file().exists(), "it belongs to the process that holds the lock");
        drop(lock);
    });
    assert!(!stopped.unwrap());
    assert!(!aws.files.server_file().exists());
}
