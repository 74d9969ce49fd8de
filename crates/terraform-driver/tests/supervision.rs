//! Supervision of a command by the shim, with a scripted engine: behaviour when any process dies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{fs, time::Duration};

use crate::support::{RunHarness, follow, is_alive, read_pid, state};
use lease_deadline::{LeaseFile, LeaseRecord, RunLease, clock};
use rustix::process::{Pid, Signal, kill_process};
use terraform_driver::{
    run::{
        RunCompletion, RunHandle,
        run_dir::{RunExit, StopReason},
    },
    state::{StateRecovery, recover_state},
};
use tokio_util::sync::CancellationToken;

fn known(ended: RunCompletion) -> RunExit {
    match ended {
        RunCompletion::Exited(exit) => exit,
        RunCompletion::Lost => panic!("the shim did not write down how the run ended"),
    }
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Records each signal; exits after the first one when released.
const RECORDS_SIGNALS: &str = r#"
trap 'echo INT >> signals; stopping=1' INT
trap 'echo TERM >> signals; stopping=1' TERM
touch ready
while [ -z "$stopping" ]; do sleep 0.05; done
while [ ! -e go ]; do sleep 0.05; done
exit 1
"#;

#[tokio::test]
async fn what_the_engine_says_and_its_exit_code_arrive() {
    let bench = RunHarness::new();
    let (ended, heard) = bench.finish(&bench.spec("echo one; echo two; echo aside >&2; exit 7")).await;
    assert_eq!(heard, "one\ntwo\n");
    let exit = known(ended);
    assert_eq!((exit.code, exit.signal, exit.stop), (Some(7), None, None));
}

#[tokio::test]
async fn fifty_megabytes_of_output_neither_block_nor_get_lost() {
    let bench = RunHarness::new();
    let spec = bench.spec("head -c 50000000 /dev/zero | tr '\\0' 'x'; echo; echo end");
    let (ended, heard) = bench.finish(&spec).await;
    assert_eq!(known(ended).code, Some(0));
    assert_eq!(heard.len(), 50_000_005);
    assert!(heard.ends_with("end\n"));
}

#[tokio::test]
async fn a_stop_is_exactly_one_interrupt_however_often_it_is_asked_for() {
    let bench = RunHarness::new();
    let run = bench.start(&bench.spec(RECORDS_SIGNALS));
    let dir = run.dir().clone();
    let stop = CancellationToken::new();
    let following = tokio::spawn({
        let stop = stop.clone();
        async move { follow(run, &stop).await }
    });
    bench.until("the engine", || bench.file("ready").exists()).await;
    bench.until("the shim", || dir.processes().unwrap().is_some()).await;
    stop.cancel();
    let shim = dir.processes().unwrap().unwrap().shim.unwrap();
    bench.until("the first signal", || bench.file("signals").exists()).await;
    kill(shim.pid, Signal::TERM);
    kill(shim.pid, Signal::INT);
    // A signal that the shim does not forward leaves no trace.
    tokio::time::sleep(Duration::from_millis(500)).await;
    fs::write(bench.file("go"), "").unwrap();
    let exit = known(following.await.unwrap().0);
    assert_eq!(fs::read_to_string(bench.file("signals")).unwrap(), "INT\n");
    assert_eq!(exit.stop.map(|stop| (stop.reason, stop.killed)), Some((StopReason::Requested, false)));
}

/// Writes down that the leadership with this fence may begin changes for so long.
fn record_lease(bench: &RunHarness, fence: u64, left: Duration) -> LeaseFile {
    let file = LeaseFile::in_data_directory(bench.dir.path());
    let deadline_ms = u64::try_from((clock::since_boot() + left).as_millis()).unwrap();
    let holder = "a".to_owned();
    file.write(&LeaseRecord { holder, fence, boot_id: clock::boot_id().unwrap(), deadline_ms }).unwrap();
    file
}

const FOR_LONG: Duration = Duration::from_hours(1);

/// Ends the lease of a running engine in some way; the engine must get one interrupt and nothing else.
async fn interrupted_once(end_lease: impl FnOnce(&RunHarness)) {
    let bench = RunHarness::new();
    let mut spec = bench.spec(RECORDS_SIGNALS);
    spec.lease = Some(RunLease { file: record_lease(&bench, 1, FOR_LONG), fence: 1 });
    let run = bench.start(&spec);
    let dir = run.dir().clone();
    let following = tokio::spawn(async move { follow(run, &CancellationToken::new()).await });
    bench.until("the engine", || bench.file("ready").exists()).await;
    assert!(!bench.file("signals").exists(), "the Lease is held");
    end_lease(&bench);
    bench.until("the interrupt", || bench.file("signals").exists()).await;
    // A stop by its caller comes on top of it.
    kill(dir.processes().unwrap().unwrap().shim.unwrap().pid, Signal::TERM);
    // A signal that the shim does not forward leaves no trace; it looks at the lease again every second.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    fs::write(bench.file("go"), "").unwrap();
    let exit = known(following.await.unwrap().0);
    assert_eq!(fs::read_to_string(bench.file("signals")).unwrap(), "INT\n");
    assert_eq!(exit.stop.map(|stop| (stop.reason, stop.killed)), Some((StopReason::LeaseLost, false)));
}

#[tokio::test]
async fn h7_at_the_deadline_of_the_lease_the_engine_gets_exactly_one_interrupt() {
    interrupted_once(|bench| drop(record_lease(bench, 1, Duration::ZERO))).await;
}

#[tokio::test]
async fn h7_a_leader_that_follows_another_one_on_this_disk_does_not_prolong_an_old_run() {
    interrupted_once(|bench| drop(record_lease(bench, 3, FOR_LONG))).await;
}

#[tokio::test]
async fn h7_an_engine_is_not_started_after_the_deadline() {
    let bench = RunHarness::new();
    let mut spec = bench.spec("touch started");
    spec.lease = Some(RunLease { file: record_lease(&bench, 1, Duration::ZERO), fence: 1 });
    let exit = known(bench.finish(&spec).await.0);
    assert_eq!((exit.code, exit.stop.map(|stop| stop.reason)), (None, Some(StopReason::LeaseLost)));
    assert!(!bench.file("started").exists());
    // The same run while the Lease is held.
    record_lease(&bench, 1, FOR_LONG);
    assert_eq!(known(bench.finish(&spec).await.0).code, Some(0));
    assert!(bench.file("started").exists());
}

#[tokio::test]
async fn an_engine_that_ignores_the_interrupt_goes_with_its_whole_group_after_the_grace() {
    let bench = RunHarness::new();
    let mut spec = bench.spec(
        "trap '' INT TERM\n(trap '' INT TERM; echo $BASHPID > provider; sleep 300) &\ntouch ready\nsleep 300",
    );
    spec.grace = Duration::from_secs(1);
    let run = bench.start(&spec);
    let stop = CancellationToken::new();
    bench.until("the provider", || read_pid(&bench.file("provider")).is_some()).await;
    stop.cancel();
    let exit = known(follow(run, &stop).await.0);
    assert_eq!(exit.signal, Some(9));
    assert!(exit.stop.unwrap().killed);
    let provider = read_pid(&bench.file("provider")).unwrap();
    bench.until("the provider's end", || !is_alive(provider)).await;
}

#[tokio::test]
async fn a_silent_engine_is_found_hung_and_stopped() {
    let bench = RunHarness::new();
    let mut spec = bench.spec("echo hello; exec sleep 300");
    spec.silence = Some(Duration::from_secs(2));
    let exit = known(bench.finish(&spec).await.0);
    assert_eq!(exit.stop.unwrap().reason, StopReason::Silent);
}

#[tokio::test]
async fn an_engine_that_keeps_talking_is_left_alone() {
    let bench = RunHarness::new();
    // Runs longer than the silence limit, with heartbeats far below it even on a busy machine.
    let mut spec = bench.spec("while [ $SECONDS -lt 10 ]; do echo beat; sleep 0.1; done");
    spec.silence = Some(Duration::from_secs(8));
    let exit = known(bench.finish(&spec).await.0);
    assert_eq!((exit.code, exit.stop), (Some(0), None));
}

#[tokio::test]
async fn an_engine_that_cannot_be_started_is_named() {
    let bench = RunHarness::new();
    let mut spec = bench.spec("");
    spec.program = "/nowhere/terraform".into();
    let run = bench.start(&spec);
    let error = run.follow(&CancellationToken::new(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("cannot start /nowhere/terraform"), "{error}");
}

#[tokio::test]
async fn a_caller_that_died_is_succeeded_by_one_that_finds_the_run() {
    let bench = RunHarness::new();
    let spec = bench.spec("echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 3");
    let abandoned = bench.start(&spec);
    drop(abandoned);
    let found = RunHandle::find_alive(&bench.workspace).unwrap().expect("the run goes on without its caller");
    fs::write(bench.file("go"), "").unwrap();
    let (ended, heard) = follow(found, &CancellationToken::new()).await;
    assert_eq!(heard, "first\nlast\n");
    assert_eq!(known(ended).code, Some(3));
    assert!(RunHandle::find_alive(&bench.workspace).unwrap().is_none());
}

#[tokio::test]
async fn an_engine_outlives_its_killed_shim_and_the_lock_tells() {
    let bench = RunHarness::new();
    let run = bench.start(&bench.spec("while [ ! -e go ]; do sleep 0.05; done; touch finished"));
    let dir = run.dir().clone();
    // A shim that is killed before it has started the engine leaves nothing that could outlive it.
    let started = || dir.processes().unwrap().filter(|it| it.shim.is_some() && it.engine.is_some());
    bench.until("the shim and its engine", || started().is_some()).await;
    kill(started().unwrap().shim.unwrap().pid, Signal::KILL);
    let following = tokio::spawn(async move { follow(run, &CancellationToken::new()).await });
    // Nothing signals that the death of the shim was detected; on a slow machine this check may come too early.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!following.is_finished(), "the engine still works, so the run is not over");
    fs::write(bench.file("go"), "").unwrap();
    assert_eq!(following.await.unwrap().0, RunCompletion::Lost);
    assert!(bench.file("finished").exists());
}

#[tokio::test]
async fn a_provider_left_by_a_killed_shim_and_engine_does_not_hold_the_workspace_for_ever() {
    let bench = RunHarness::new();
    let run = bench.start(&bench.spec("(echo $BASHPID > provider; sleep 300) <&0 &\nwait"));
    let dir = run.dir().clone();
    bench.until("the provider", || read_pid(&bench.file("provider")).is_some()).await;
    // The shim records its own process id first, then that of the engine.
    let both = || dir.processes().unwrap().filter(|it| it.shim.is_some() && it.engine.is_some());
    bench.until("the shim and its engine", || both().is_some()).await;
    let processes = both().unwrap();
    kill(processes.shim.unwrap().pid, Signal::KILL);
    kill(processes.engine.unwrap().pid, Signal::KILL);
    assert_eq!(follow(run, &CancellationToken::new()).await.0, RunCompletion::Lost);
    let provider = read_pid(&bench.file("provider")).unwrap();
    bench.until("the provider's end", || !is_alive(provider)).await;
}

#[tokio::test]
async fn a_state_torn_by_a_kill_comes_back_from_its_last_whole_version() {
    let bench = RunHarness::new();
    let (first, second) = (state("a", 1, ""), state("a", 2, ""));
    let snapshots = bench.spec("").snapshots;
    let script = format!(
        "kept() {{ until grep -qs \"$1\" {}/*; do sleep 0.02; done; }}\n\
         echo '{first}' > terraform.tfstate; kept '\"serial\":1,'\n\
         echo '{second}' > terraform.tfstate; kept '\"serial\":2,'\n\
         echo '{{\"version\":4,\"serial\":3,\"lin' > terraform.tfstate; kill -9 $$",
        snapshots.display()
    );
    let exit = known(bench.finish(&bench.spec(&script)).await.0);
    assert_eq!(exit.signal, Some(9));
    let recovered = recover_state(&bench.workspace).unwrap();
    assert_eq!(recovered.source, StateRecovery::FromSnapshot { serial: 2, problem: "torn" });
    assert_eq!(bench.workspace.state().unwrap().unwrap().version.serial, 2);
}

#[tokio::test]
async fn an_emergency_dump_is_saved_as_state_and_leaves_the_log() {
    let bench = RunHarness::new();
    let dumped = state(
        "a",
        9,
        r#"{"mode":"managed","type":"secret","name":"x","instances":[{"attributes":{"password":"hunter2"}}]}"#,
    );
    let line = serde_json::json!({"@level": "error", "@message": "Emergency state dump", "type": "log",
        "state": serde_json::from_str::<serde_json::Value>(&dumped).unwrap()});
    let script = format!("echo '{{\"type\":\"version\"}}'\ncat <<'END'\n{line}\nEND\necho after\nexit 1");
    bench.finish(&bench.spec(&script)).await;
    let run = terraform_driver::run::run_dir::RunDir::list(&bench.workspace.runs_dir()).unwrap().remove(0);
    let log = fs::read_to_string(run.events_path()).unwrap();
    assert!(
        !log.contains("hunter2") && log.contains("kept as errored.tfstate") && log.ends_with("after\n"),
        "{log}"
    );
    recover_state(&bench.workspace).unwrap();
    assert_eq!(bench.workspace.state().unwrap().unwrap().version.serial, 9);
    assert!(!bench.file("errored.tfstate").exists());
}
