//! The commands around the operator, where nothing runs: what they say, and what they leave alone.

use std::fs;

use serde_json::json;

use super::harness::{CliHarness, QUICKSTART, engine_script};

#[test]
fn every_command_has_a_help_with_examples() {
    let ground = CliHarness::new();
    for command in [
        "run",
        "up",
        "stop",
        "down",
        "state",
        "status",
        "logs",
        "history",
        "approve",
        "kubeconfig",
        "init",
        "connect",
    ] {
        let said = ground.capt(&[command, "--help"]).run().assert_success();
        assert!(said.stdout.contains("Examples:"), "{command}: {}", said.stdout);
        assert!(said.stdout.contains(&format!("capt {command}")), "{command}: {}", said.stdout);
    }
    let said = ground.capt(&["--help"]).run().assert_success();
    assert!(!said.stdout.contains("up-serve"), "what is not for people is not shown");
}

#[test]
fn where_nothing_runs_the_way_to_start_it_is_said() {
    for command in
        [&["status"][..], &["history", "demo"], &["approve", "demo", "0123456789"], &["kubeconfig", "demo"]]
    {
        let ground = CliHarness::new();
        let said = ground.capt(&[command, &["--data", "data"]].concat()).run();
        said.assert_refused(&[
            "no `capt up` process runs for the data directory",
            "capt up --data",
            "--kubeconfig",
        ]);
        assert!(!ground.has("data"), "asking makes nothing");
    }
}

#[test]
fn a_record_of_a_process_that_is_gone_is_no_process() {
    let ground = CliHarness::new();
    let record =
        json!({"process": {"pid": 1, "started": 1}, "started": "2026-01-01T00:00:00Z", "aws": "local"});
    ground.write("data/up/server.json", record.to_string());
    ground.capt(&["status", "--data", "data"]).run().assert_refused(&["no `capt up` process runs"]);
    let said = ground.capt(&["stop", "--data", "data"]).run().assert_success();
    assert!(said.stderr.contains("no background process was running"), "{said:?}");
    assert!(!ground.has("data/up/server.json"));
}

#[test]
fn stop_and_down_of_nothing_are_done_at_once() {
    let ground = CliHarness::new();
    let said = ground.capt(&["stop", "--data", "data"]).run().assert_success();
    assert!(said.stderr.contains("no background process was running"), "{said:?}");
    let said = ground.capt(&["down", "--data", "data"]).run().assert_success();
    assert!(said.stderr.contains("`capt up` never ran in"), "{said:?}");
    assert!(!ground.has("data"));
}

#[test]
fn down_asks_before_it_touches_a_real_account_or_an_api_of_somebody_else() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground.write("data/up/settings.json", r#"{"aws": "real"}"#);
    ground.capt(&["down", "--data", "data"]).run().assert_refused(&["a real AWS account", "pass --yes"]);
    ground.write("data/up/settings.json", r#"{"aws": "local", "context": "prod"}"#);
    ground.capt(&["down", "--data", "data"]).run().assert_refused(&["is external", "-f FILE"]);
    ground
        .capt(&["down", "-f", "demo.yaml", "--data", "data"])
        .run()
        .assert_refused(&["an external Kubernetes API", "pass --yes"]);
    assert!(!ground.has("data/up/server.json"));
}

#[test]
fn files_are_read_before_anything_is_started() {
    let ground = CliHarness::new();
    ground.write("bad.yaml", "kind: Cluster\n");
    ground.write("broken.yaml", "a: [\n");
    for command in ["up", "down"] {
        let run = |file| ground.capt(&[command, "-f", file, "--data", "data"]).run();
        run("bad.yaml").assert_refused(&["bad.yaml: line 1", "has no apiVersion"]);
        run("broken.yaml").assert_refused(&["broken.yaml: line", "invalid YAML"]);
        run("absent.yaml").assert_refused(&["absent.yaml", "check that the file exists"]);
        assert!(!ground.has("data"));
    }
}

#[test]
fn up_says_what_is_missing_before_it_starts_anything() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    let up = ["up", "-f", "demo.yaml", "--data", "data"];
    ground.capt(&up).run().assert_refused(&["terraform"]);
    let said = ground.capt_with_engine(&up).run();
    said.assert_refused(&["python"]);
    assert!(!ground.has("data/up/server.json") && !ground.has("data/kube"), "nothing was started");
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_named() {
    let ground = CliHarness::new();
    ground.write("kubeconfig", "not: [a kubeconfig");
    ground
        .capt(&["status", "--kubeconfig", "kubeconfig"])
        .run()
        .assert_refused(&["cannot use the kubeconfig", "kubeconfig"]);
    ground
        .capt(&["status", "--kubeconfig", "absent"])
        .run()
        .assert_refused(&["cannot use the kubeconfig", "absent"]);
    ground
        .capt(&["status", "--context", "mars"])
        .run()
        .assert_refused(&["cannot use the context mars", "get-contexts"]);
}

#[test]
fn an_api_that_does_not_answer_is_said_in_one_line() {
    let ground = CliHarness::new();
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}]});
    ground.write("kubeconfig", config.to_string());
    let said = ground.capt(&["status", "--kubeconfig", "kubeconfig"]).run();
    said.assert_refused(&[
        "cannot reach the Kubernetes API",
        "Connection refused",
        "check that it is running",
    ]);
}

#[test]
fn run_needs_a_kubernetes_api_and_takes_the_flags_of_the_operator_that_it_replaces() {
    let ground = CliHarness::new();
    let said = ground.capt(&["run", "--data", "data", "--enable-controller", "infrastructure"]).run();
    assert!(said.stderr.contains("--enable-controller is ignored"), "{said:?}");
    said.assert_refused(&["neither a kubeconfig nor an in-cluster configuration", "--kubeconfig"]);
    ground.capt(&["run", "--aws", "mars"]).run().assert_usage_error(&["--aws", "real, local, or a URL"]);
    ground.capt(&["run", "--listen", "here"]).run().assert_usage_error(&["--listen", "127.0.0.1:8081"]);
    ground.capt(&["run", "--standalone", "maybe"]).run().assert_usage_error(&["auto", "on", "off"]);
    ground
        .capt(&["run", "--drift-interval", "often"])
        .run()
        .assert_usage_error(&["--drift-interval", "such as 90s"]);
}

#[test]
fn a_hash_that_is_too_short_approves_nothing() {
    let said = CliHarness::new().capt(&["approve", "demo", "0123"]).run();
    said.assert_refused(&["0123 is too short", "8 characters"]);
}

/// A run as a shim leaves it.
fn write_run(ground: &CliHarness, name: &str, command: &str, events: &str, exit: i32) {
    let dir = format!("data/workspaces/default/demo-vpc/.capt/runs/{name}");
    let spec = json!({"command": command, "program": engine_script("new"), "args": [], "cwd": "/", "created":
        "2026-01-01T00:00:00Z", "grace": {"secs": 1, "nanos": 0}, "silence": null, "deadline": null, "snapshots": "/"});
    ground.write(&format!("{dir}/run.json"), spec.to_string());
    ground.write(&format!("{dir}/events.ndjson"), events);
    let exit = json!({"code": exit, "signal": null, "stop": null, "finished": "2026-01-01T00:01:00Z"});
    ground.write(&format!("{dir}/exit.json"), exit.to_string());
}

const CREATING: &str = r#"{"@level":"info","@message":"aws_vpc.this: Creating...","type":"apply_start","hook":{"resource":{"addr":"aws_vpc.this"},"action":"create"}}
"#;

#[test]
fn logs_are_the_words_of_the_newest_run_by_either_name() {
    let ground = CliHarness::new();
    write_run(&ground, "20260101T000000000Z-apply", "apply", CREATING, 1);
    write_run(
        &ground,
        "20260101T000100000Z-plan",
        "plan",
        "{\"@message\":\"No changes.\",\"type\":\"log\"}\n",
        0,
    );
    let logs = |args: &[&str]| ground.capt(&[&["logs"], args, &["--data", "data"]].concat()).run();
    let said = logs(&["demo-vpc"]).assert_success();
    assert_eq!(said.stdout, "No changes.\n");
    assert!(said.stderr.contains("terraform plan, started 2026-01-01T00:00:00Z"), "{said:?}");
    assert!(said.stderr.contains("terraform exited with code 0"), "{said:?}");
    assert_eq!(
        logs(&["demo-vpc-apply", "--command", "apply"]).assert_success().stdout,
        "aws_vpc.this: Creating...\n"
    );
    assert_eq!(logs(&["default/demo-vpc", "-f"]).assert_success().stdout, "No changes.\n");
    assert_eq!(logs(&["demo-vpc", "--command", "destroy"]).assert_success().stdout, "");
}

#[test]
fn logs_of_a_workspace_that_is_not_there_name_those_that_are() {
    let ground = CliHarness::new();
    ground
        .capt(&["logs", "demo", "--data", "data"])
        .run()
        .assert_refused(&["contains no workspace", "--data"]);
    fs::create_dir_all(ground.path("data/workspaces/default/demo-vpc/.capt")).unwrap();
    ground
        .capt(&["logs", "demo", "--data", "data"])
        .run()
        .assert_refused(&["no workspace default/demo", "default/demo-vpc"]);
}
