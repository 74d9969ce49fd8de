//! The data directory: in use, unwritable, on a full disk.

use std::{fs::File, os::unix::fs::PermissionsExt, path::Path};

use super::harness::{CliHarness, QUICKSTART, engine_script};

fn harness_with_quickstart() -> CliHarness {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground
}

/// Holds the lock of `data` as another capt would.
fn lock_data_dir(ground: &CliHarness) -> File {
    ground.write("data/lock", "another capt (process 4711)");
    let lock = File::options().read(true).write(true).open(ground.path("data/lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_data_directory_in_use_is_refused_before_an_aws_is_started_for_it() {
    let ground = harness_with_quickstart();
    let held = lock_data_dir(&ground);
    let data = ground.path("data").display().to_string();
    for command in ["plan", "apply"] {
        let said = ground.capt_with_engine(&[command, "demo.yaml", "--data", "data"]).run();
        let in_use = format!("the data directory {data} is in use by another capt (process 4711)");
        said.assert_refused(&[&in_use, "wait until it is done", "use another one with --data"]);
    }
    assert!(!ground.has("data/local-aws") && !ground.has("cache"), "something was started");
    drop(held);
    let said = ground.capt_with_engine(&["plan", "demo.yaml", "--data", "data"]).run();
    said.assert_refused(&["the local AWS needs python3"]);
}

#[test]
fn a_data_directory_in_use_is_not_taken_for_one_with_nothing_to_destroy() {
    let ground = harness_with_quickstart();
    let _held = lock_data_dir(&ground);
    let said = ground.capt_with_engine(&["destroy", "demo.yaml", "--data", "data"]).run();
    said.assert_refused(&["data is in use by another capt", "wait until it is done", "--data"]);
}

#[test]
fn a_data_directory_in_use_is_not_reset() {
    let ground = harness_with_quickstart();
    let _held = lock_data_dir(&ground);
    ground.write("data/workspaces/default/demo-vpc/terraform.tfstate", "{}");
    let said = ground.capt(&["aws", "reset", "--data", "data"]).run();
    said.assert_refused(&["data is in use by another capt", "wait until it is done"]);
    assert!(ground.has("data/workspaces/default/demo-vpc/terraform.tfstate"));
}

#[test]
fn a_lock_that_its_owner_left_behind_is_nothing_to_wait_for() {
    let ground = harness_with_quickstart();
    drop(lock_data_dir(&ground));
    let said = ground.capt(&["destroy", "demo.yaml", "--data", "data"]).run().assert_success();
    assert_eq!(said.stderr, "nothing to destroy\n");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named_with_the_flag() {
    let ground = harness_with_quickstart();
    ground.write("file", "");
    for data in ["file", "file/below", "/proc/capt"] {
        let said = ground.capt_with_engine(&["plan", "demo.yaml", "--data", data]).run();
        said.assert_refused(&["cannot use the data directory", data, "--data"]);
        assert!(!ground.has("cache"), "something was started");
    }
}

/// Root may write anywhere, so this one can only be seen by others.
#[test]
fn a_data_directory_without_the_right_to_write_is_named_with_the_flag() {
    let ground = harness_with_quickstart();
    std::fs::create_dir(ground.path("data")).unwrap();
    std::fs::set_permissions(ground.path("data"), PermissionsExt::from_mode(0o555)).unwrap();
    if File::create(ground.path("data/probe")).is_ok() {
        return;
    }
    let said = ground.capt_with_engine(&["plan", "demo.yaml", "--data", "data"]).run();
    said.assert_refused(&["cannot use the data directory", "data", "Permission denied", "--data"]);
}

#[test]
fn an_output_directory_that_cannot_be_made_is_named_with_the_flag() {
    let ground = harness_with_quickstart();
    ground.write("out", "a file");
    ground.render().assert_refused(&["out", "choose another directory with --output"]);
    std::fs::remove_file(ground.path("out")).unwrap();
    ground.render().assert_success();
}

/// Runs a script in a mount namespace of its own, where `full` is a file system of a few pages; nothing if this
/// machine does not let us have one.
#[expect(clippy::print_stderr, reason = "whoever reads the test's words should know what was not tested")]
fn run_on_small_disk(ground: &CliHarness, script: &str) -> Option<String> {
    std::fs::create_dir(ground.path("full")).unwrap();
    let mount = "mount -t tmpfs -o size=16k none full";
    let unshare = Path::new("/usr/bin/unshare");
    let shell = |script: &str| {
        let run = ground.program(unshare, &["--user", "--map-root-user", "--mount", "/bin/sh", "-c", script]);
        run.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("CAPT", env!("CARGO_BIN_EXE_capt")).run()
    };
    if !unshare.exists() || shell(mount).code != Some(0) {
        eprintln!("skipped: no mount namespace can be had here, so no disk can be made full");
        return None;
    }
    let said = shell(&format!("{mount} && {script}"));
    assert_eq!(said.code, Some(0), "{said:#?}");
    Some(said.stderr + &said.stdout)
}

#[test]
fn a_full_disk_stops_render_and_the_same_command_goes_on_when_there_is_space() {
    let ground = harness_with_quickstart();
    let render = "\"$CAPT\" render demo.yaml -o full/out";
    let script = format!(
        "{render} >/dev/null; echo \"first $?\"; find full -name '.capt-*'; \
         mount -o remount,size=64m full && {render} && cp -r full/out complete"
    );
    let Some(said) = run_on_small_disk(&ground, &script) else { return };
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    for text in ["full/out", "no space left on the disk", "free some space and retry"] {
        assert!(errors[0].contains(text), "{said}");
    }
    assert!(said.contains("first 1\n"), "{said}");
    assert!(!said.contains(".capt-"), "a temporary file was left behind: {said}");
    ground.render().assert_success();
    for file in ["default/demo-vpc/main.tf", "default/demo-jobs-fargate/terraform.tfvars.json"] {
        assert_eq!(ground.read(&format!("complete/{file}")), ground.read(&format!("out/{file}")));
    }
}

#[test]
fn a_full_disk_stops_plan_before_an_aws_is_started() {
    let ground = harness_with_quickstart();
    let (new, mirror) = (engine_script("new"), ground.create_provider_mirror("6.0.0"));
    let plan = format!("\"$CAPT\" plan demo.yaml --data full/data --engine {new} --provider-mirror {mirror}");
    let fill = "head -c 1m /dev/zero > full/filler 2>/dev/null";
    let script = format!(
        "mkdir full/data; {fill}; {plan}; echo \"first $?\"; rm full/filler; {plan}; echo \"second $?\""
    );
    let Some(said) = run_on_small_disk(&ground, &script) else { return };
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 2, "{said}");
    for text in ["full/data", "no space left on the disk", "free some space and retry"] {
        assert!(errors[0].contains(text), "{said}");
    }
    assert!(errors[1].contains("python3"), "with space it goes on to what it needs next: {said}");
    assert!(said.contains("first 1\n") && said.contains("second 1\n"), "{said}");
}
