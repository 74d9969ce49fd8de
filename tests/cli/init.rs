//! The first process of a container, around small shell scripts.

use rustix::process::Signal;

use super::harness::{CliHarness, RunningCommand};

/// `capt init` around a script that finds the usual tools.
fn start_init(ground: &CliHarness, options: &[&str], script: &str) -> RunningCommand {
    let args = [&["init"], options, &["--", "/bin/sh", "-c", script]].concat();
    ground.capt(&args).env("PATH", "/usr/bin:/bin").start()
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let ground = CliHarness::new();
    assert_eq!(start_init(&ground, &[], "echo done; exit 0").wait().assert_success().stdout, "done\n");
    assert_eq!(start_init(&ground, &[], "exit 2").wait().code, Some(2));
    assert_eq!(start_init(&ground, &["--restarts", "0"], "exit 7").wait().code, Some(7));
    assert_eq!(start_init(&ground, &["--restarts", "0"], "kill -9 $$").wait().code, Some(137));
}

#[test]
fn a_command_that_dies_is_started_again_and_not_for_ever() {
    let ground = CliHarness::new();
    let said = start_init(&ground, &["--restarts", "1"], "echo begun; exit 70").wait();
    assert_eq!((said.code, said.stdout.as_str()), (Some(70), "begun\nbegun\n"));
    assert!(said.stderr.contains("exited unexpectedly with code 70"), "{said:?}");
    assert!(said.stderr.contains("too often"), "{said:?}");
}

#[test]
fn a_command_that_is_well_the_second_time_is_left_alone() {
    let ground = CliHarness::new();
    let script = "if [ -e tried ]; then echo well; exit 0; fi; : > tried; exit 1";
    assert_eq!(start_init(&ground, &[], script).wait().code, Some(0));
}

#[test]
fn signals_are_handed_on_once_each() {
    let ground = CliHarness::new();
    let script = "trap 'echo term' TERM; trap 'echo int' INT; trap 'echo hup' HUP; echo ready
                  while :; do sleep 0.05; [ -e over ] && exit 5; done";
    let going = start_init(&ground, &["--restarts", "0"], script);
    going.wait_for_stdout("ready");
    // They are handed on one after the other: whatever would come twice has come before the last one.
    for (signal, words) in
        [(Signal::HUP, "hup"), (Signal::INT, "int"), (Signal::TERM, "term"), (Signal::HUP, "term\nhup")]
    {
        going.signal(signal);
        going.wait_for_stdout(words);
    }
    ground.write("over", "");
    let said = going.wait();
    assert_eq!((said.code, said.stdout.as_str()), (Some(5), "ready\nhup\nint\nterm\nhup\n"));
}

#[test]
fn those_without_a_parent_are_buried() {
    let ground = CliHarness::new();
    // The inner shell exits immediately; its background child is reparented to init and exits later.
    let script =
        "/bin/sh -c '(while [ ! -e grown ]; do sleep 0.05; done) & echo orphan $!; exit 0'; echo ready
                  while :; do sleep 0.05; [ -e over ] && exit 0; done";
    let going = start_init(&ground, &[], script);
    going.wait_for_stdout("ready");
    let words = going.read_stream("out");
    let orphan = words.lines().next().unwrap().trim_start_matches("orphan ");
    let entry = std::path::Path::new("/proc").join(orphan);
    assert!(entry.exists(), "it must have been there");
    ground.write("grown", "");
    going.wait_until("no zombie stays", || !entry.exists());
    ground.write("over", "");
    assert_eq!(going.wait().code, Some(0));
}

#[test]
fn what_still_runs_after_the_command_is_waited_for() {
    let ground = CliHarness::new();
    let script = "/bin/sh -c '(while [ ! -e go ]; do sleep 0.05; done; : > finished) & exit 0'
                  trap 'exit 0' TERM; echo ready
                  while :; do sleep 0.05; done";
    let going = start_init(&ground, &[], script);
    going.wait_for_stdout("ready");
    going.signal(Signal::TERM);
    going.wait_for_stderr("waiting up to 10m00s for running processes");
    ground.write("go", "");
    let said = going.wait();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(ground.has("finished"), "it left too early: {said:?}");
}

#[test]
fn patience_ends_with_the_grace_or_with_a_second_signal() {
    let ground = CliHarness::new();
    // What still runs ends when the test is over, and not before.
    let script =
        "/bin/sh -c '(while [ ! -e over ]; do sleep 0.05; done) & exit 0'; trap 'exit 0' TERM; echo ready
                  while :; do sleep 0.05; done";
    let short = start_init(&ground, &["--grace", "300ms"], script);
    short.wait_for_stdout("ready");
    short.signal(Signal::TERM);
    let said = short.wait();
    assert!(said.stderr.contains("terraform processes still run"), "{said:?}");
    let long = start_init(&ground, &[], script);
    long.wait_for_stdout("ready");
    long.signal(Signal::TERM);
    long.wait_for_stderr("waiting up to 10m00s for running processes");
    long.signal(Signal::TERM);
    let said = long.wait();
    assert!(said.stderr.contains("terraform processes still run"), "{said:?}");
    ground.write("over", "");
}

#[test]
fn a_program_that_does_not_exist_is_said() {
    let ground = CliHarness::new();
    ground
        .capt(&["init", "--", "/nonexistent/capt", "run"])
        .run()
        .assert_refused(&["/nonexistent/capt", "after `--`"]);
    ground.capt(&["init"]).run().assert_usage_error(&["COMMAND"]);
    ground
        .capt(&["init", "--grace", "soon", "--", "true"])
        .run()
        .assert_usage_error(&["--grace", "such as 90s"]);
}

#[test]
fn a_gateway_that_nothing_uses_does_not_delay_the_exit() {
    let ground = CliHarness::new();
    // The gateway is reparented to init, as in a pod, and would wait an hour for new runs.
    let script = format!(
        "/bin/sh -c '{} gateway serve --data data --idle 1h & exit 0'
         while [ ! -e data/gateway/server.json ]; do sleep 0.05; done
         trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done",
        env!("CARGO_BIN_EXE_capt")
    );
    let going = start_init(&ground, &["--grace", "1h"], &script);
    going.wait_for_stdout("ready");
    going.signal(Signal::TERM);
    let said = going.wait();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        !ground.has("data/gateway/server.json"),
        "the gateway was stopped and removed its record: {said:?}"
    );
}
