//! Records of processes that live, that do not live, and that are about to.

use terraform_driver::workspace::FileLock;

use super::*;

fn up(data: &Path) -> UpDaemon {
    let env = [("AWS_REGION", "eu-west-1"), ("AWS_SECRET_ACCESS_KEY", "hush"), ("HOME", "/home/me")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let process_env = ProcessEnv { env, cwd: data.to_owned(), exe: PathBuf::from("/nonexistent/capt") };
    let up = UpDaemon::new(&process_env, data);
    create_private_dir(up.files.dir()).unwrap();
    up
}

fn record(up: &UpDaemon, process: ProcessId) {
    let server = UpRecord {
        process,
        kubeconfig: None,
        context: None,
        started: terraform_driver::clock::now(),
        aws: AwsMode::Local,
        notes: Vec::new(),
    };
    write_json(&up.files.server_file(), &server).unwrap();
}

fn living() -> ProcessId {
    ProcessId::from_pid(std::process::id()).unwrap()
}

#[tokio::test]
async fn the_record_of_a_dead_process_is_no_process() {
    let data = tempfile::tempdir().unwrap();
    let up = up(data.path());
    record(&up, ProcessId { started: 1, ..living() });
    assert!(up.running().unwrap().is_none());
    assert!(!up.stop(SLOW_STOP, false, || ()).await.unwrap());
    assert!(!up.files.server_file().exists(), "stop tidies up");
}

#[tokio::test]
async fn one_that_runs_with_other_settings_is_not_taken_for_the_one_that_was_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let up = up(data.path());
    record(&up, living());
    up.write_settings(&UpSettings::default()).unwrap();
    assert!(!up.ensure_running(&UpSettings::default()).await.unwrap().1, "the same is found again");
    let real = UpSettings { aws: AwsMode::Real, ..UpSettings::default() };
    let error = up.ensure_running(&real).await.unwrap_err().to_string();
    for text in [
        "runs with --aws local",
        "but --aws real and the embedded Kubernetes API was requested",
        "`capt stop --data",
    ] {
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn one_that_comes_up_is_waited_for() {
    let data = tempfile::tempdir().unwrap();
    let up = up(data.path());
    let lock = FileLock::acquire(&up.files.dir().join("lock"), "somebody").unwrap();
    let settings = UpSettings::default();
    let (found, ()) = tokio::join!(up.ensure_running(&settings), async {
        sleep(Duration::from_millis(300)).await;
        record(&up, living());
    });
    assert!(!found.unwrap().1, "it was not ours");
    drop(lock);
}

#[tokio::test]
async fn one_that_cannot_be_started_is_an_error() {
    let data = tempfile::tempdir().unwrap();
    let error = up(data.path()).ensure_running(&UpSettings::default()).await.unwrap_err();
    assert!(matches!(error, UpError::Start(_)), "{error}");
}

#[test]
fn credentials_are_handed_on_for_a_real_account_only() {
    let data = tempfile::tempdir().unwrap();
    let up = up(data.path());
    let names = |mode| up.environment(mode).into_keys().collect::<Vec<_>>();
    assert_eq!(names(AwsMode::Local), ["AWS_REGION", "HOME"]);
    assert_eq!(names(AwsMode::Real), ["AWS_REGION", "AWS_SECRET_ACCESS_KEY", "HOME"]);
}

#[test]
fn a_process_that_ends_forgets_itself_and_nobody_else() {
    let data = tempfile::tempdir().unwrap();
    let up = up(data.path());
    record(&up, living());
    up.files.remove_record(ProcessId { started: 1, ..living() }).unwrap();
    assert!(up.files.server_file().exists(), "it is the record of another one");
    up.files.remove_record(living()).unwrap();
    assert!(!up.files.server_file().exists());
}
