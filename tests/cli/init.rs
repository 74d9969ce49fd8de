//! The first process of a container, around small shell scripts.

use rustix::process::Signal;

use super::capt::{Going, Ground};

/// `capt init` around a script that finds the usual tools.
fn init(ground: &Ground, options: &[&str], script: &str) -> Going {
    let args = [&["init"], options, &["--", "/bin/sh", "-c", script]].concat();
    ground.capt(&args).env("PATH", "/usr/bin:/bin").start()
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let ground = Ground::new();
    assert_eq!(init(&ground, &[], "echo done; exit 0").end().done().stdout, "done\n");
    assert_eq!(init(&ground, &[], "exit 2").end().code, Some(2));
    assert_eq!(init(&ground, &["--restarts", "0"], "exit 7").end().code, Some(7));
    assert_eq!(init(&ground, &["--restarts", "0"], "kill -9 $$").end().code, Some(137));
}

#[test]
fn a_command_that_dies_is_started_again_and_not_for_ever() {
    let ground = Ground::new();
    let said = init(&ground, &["--restarts", "1"], "echo begun; exit 70").end();
    assert_eq!((said.code, said.stdout.as_str()), (Some(70), "begun\nbegun\n"));
    assert!(said.stderr.contains("ended with 70, which nobody asked for"), "{said:?}");
    assert!(said.stderr.contains("too often"), "{said:?}");
}

#[test]
fn a_command_that_is_well_the_second_time_is_left_alone() {
    let ground = Ground::new();
    let script = "if [ -e tried ]; then echo well; exit 0; fi; : > tried; exit 1";
    assert_eq!(init(&ground, &[], script).end().code, Some(0));
}

#[test]
fn signals_are_handed_on_once_each() {
    let ground = Ground::new();
    let script = "trap 'echo term' TERM; trap 'echo int' INT; trap 'echo hup' HUP; echo ready
                  while :; do sleep 0.05; [ -e over ] && exit 5; done";
    let going = init(&ground, &["--restarts", "0"], script);
    going.until_it_says("ready");
    // They are handed on one after the other: whatever would come twice has come before the last one.
    for (signal, words) in
        [(Signal::HUP, "hup"), (Signal::INT, "int"), (Signal::TERM, "term"), (Signal::HUP, "term\nhup")]
    {
        going.signal(signal);
        going.until_it_says(words);
    }
    ground.write("over", "");
    let said = going.end();
    assert_eq!((said.code, said.stdout.as_str()), (Some(5), "ready\nhup\nint\nterm\nhup\n"));
}

#[test]
fn those_without_a_parent_are_buried() {
    let ground = Ground::new();
    // The inner shell ends at once; what it began ends later, as a child of nobody but us.
    let script =
        "/bin/sh -c '(while [ ! -e grown ]; do sleep 0.05; done) & echo orphan $!; exit 0'; echo ready
                  while :; do sleep 0.05; [ -e over ] && exit 0; done";
    let going = init(&ground, &[], script);
    going.until_it_says("ready");
    let words = going.words("out");
    let orphan = words.lines().next().unwrap().trim_start_matches("orphan ");
    let entry = std::path::Path::new("/proc").join(orphan);
    assert!(entry.exists(), "it must have been there");
    ground.write("grown", "");
    going.until("no zombie stays", || !entry.exists());
    ground.write("over", "");
    assert_eq!(going.end().code, Some(0));
}

#[test]
fn what_still_runs_after_the_command_is_waited_for() {
    let ground = Ground::new();
    let script = "/bin/sh -c '(while [ ! -e go ]; do sleep 0.05; done; : > finished) & exit 0'
                  trap 'exit 0' TERM; echo ready
                  while :; do sleep 0.05; done";
    let going = init(&ground, &[], script);
    going.until_it_says("ready");
    going.signal(Signal::TERM);
    going.until_it_tells("waiting up to 10m00s for what still runs");
    ground.write("go", "");
    let said = going.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(ground.has("finished"), "it left too early: {said:?}");
}

#[test]
fn patience_ends_with_the_grace_or_with_a_second_signal() {
    let ground = Ground::new();
    // What still runs ends when the test is over, and not before.
    let script =
        "/bin/sh -c '(while [ ! -e over ]; do sleep 0.05; done) & exit 0'; trap 'exit 0' TERM; echo ready
                  while :; do sleep 0.05; done";
    let short = init(&ground, &["--grace", "300ms"], script);
    short.until_it_says("ready");
    short.signal(Signal::TERM);
    let said = short.end();
    assert!(said.stderr.contains("something still runs"), "{said:?}");
    let long = init(&ground, &[], script);
    long.until_it_says("ready");
    long.signal(Signal::TERM);
    long.until_it_tells("waiting up to 10m00s for what still runs");
    long.signal(Signal::TERM);
    let said = long.end();
    assert!(said.stderr.contains("something still runs"), "{said:?}");
    ground.write("over", "");
}

#[test]
fn a_program_that_does_not_exist_is_said() {
    let ground = Ground::new();
    ground
        .capt(&["init", "--", "/nonexistent/capt", "run"])
        .run()
        .refused(&["/nonexistent/capt", "after `--`"]);
    ground.capt(&["init"]).run().misused(&["COMMAND"]);
    ground.capt(&["init", "--grace", "soon", "--", "true"]).run().misused(&["--grace", "such as 90s"]);
}
