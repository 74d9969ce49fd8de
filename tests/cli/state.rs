//! `capt state` on a data directory: what it prints, what it refuses, and what it keeps.

use std::fs::File;

use serde_json::{Value, json};

use super::harness::{CliHarness, CommandOutput};

const WORKSPACE: &str = "data/workspaces/default/net";
const LINEAGE: &str = "0a1b2c3d-1111-2222-3333-444455556666";

fn state(lineage: &str, serial: u64, names: &[&str]) -> String {
    let resource = |name: &&str| json!({"mode": "managed", "type": "t", "name": name, "instances": [{"attributes": {"secret": "hunter2"}}]});
    let resources: Vec<Value> = names.iter().map(resource).collect();
    json!({"version": 4, "serial": serial, "lineage": lineage, "outputs": {}, "resources": resources})
        .to_string()
}

/// A data directory with one workspace, as an apply leaves it.
fn harness_with_workspace() -> CliHarness {
    let ground = CliHarness::new();
    let record = json!({"owner": "WorkspaceTemplateApply default/net", "role": "custom", "eks_cluster": null, "region": null,
        "after": [], "root": "", "configuration": "", "installation": ""});
    ground.write(&format!("{WORKSPACE}/.capt/workspace.json"), record.to_string());
    ground.write(&format!("{WORKSPACE}/.capt/state/00000000000000000004.tfstate"), state(LINEAGE, 4, &["a"]));
    ground.write(&format!("{WORKSPACE}/terraform.tfstate"), state(LINEAGE, 5, &["a", "b"]));
    ground
}

fn run(ground: &CliHarness, args: &[&str]) -> CommandOutput {
    ground.capt(&[&["state"], args, &["--data", "data"]].concat()).run()
}

fn current(ground: &CliHarness) -> Value {
    serde_json::from_str(&ground.read(&format!("{WORKSPACE}/terraform.tfstate"))).unwrap()
}

/// The last line of the record of changes.
fn last_change(ground: &CliHarness) -> Value {
    let all = ground.read(&format!("{WORKSPACE}/.capt/state-changes.jsonl"));
    serde_json::from_str(all.lines().last().unwrap()).unwrap()
}

#[test]
fn the_workspaces_and_their_versions_are_listed() {
    let ground = harness_with_workspace();
    let table = run(&ground, &["list"]).assert_success().stdout;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["WORKSPACE", "SERIAL", "LINEAGE", "RESOURCES", "AGE", "STORED"]);
    assert_eq!((rows[1][0], rows[1][1], rows[1][2], rows[1][3]), ("default/net", "5", "0a1b2c3d", "2"));
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let listed: Value = serde_json::from_str(&run(&ground, &["list", "-o", "json"]).stdout).unwrap();
    assert_eq!((&listed[0]["lineage"], &listed[0]["place"]), (&json!(LINEAGE), &json!("directory")));
    assert_eq!(run(&ground, &["list", "-n", "other"]).assert_success().stdout, "no workspace has a state\n");

    let versions = run(&ground, &["versions", "net", "-o", "json"]).assert_success().stdout;
    assert!(!versions.contains("hunter2"), "a list shows no secrets");
    let versions: Vec<Value> = serde_json::from_str(&versions).unwrap();
    let kept: Vec<_> =
        versions.iter().map(|it| (it["serial"].as_u64().unwrap(), it["kept"].as_str().unwrap())).collect();
    assert_eq!(kept, [(5, "current"), (4, "snapshot")]);
}

#[test]
fn the_state_goes_to_standard_output_alone() {
    let ground = harness_with_workspace();
    let said = run(&ground, &["pull", "default/net-apply"]).assert_success();
    assert_eq!((said.stdout, said.stderr), (state(LINEAGE, 5, &["a", "b"]), String::new()));
}

#[test]
fn a_pushed_state_gets_a_higher_serial_and_the_replaced_one_can_be_restored() {
    let ground = harness_with_workspace();
    ground.write("fixed.tfstate", state(LINEAGE, 3, &["a", "b", "c"]));
    let said = run(&ground, &["push", "net", "fixed.tfstate"]).assert_success();
    assert!(said.stderr.contains("default/net: pushed fixed.tfstate, serial 5 → 6, 3 resources"), "{said:?}");
    assert!(!said.stderr.contains("hunter2") && said.stdout.is_empty(), "{said:?}");
    assert_eq!(
        (&current(&ground)["serial"], current(&ground)["resources"].as_array().unwrap().len()),
        (&json!(6), 3)
    );
    let change = last_change(&ground);
    assert_eq!(
        (&change["change"], &change["serialBefore"], &change["serialAfter"]),
        (&json!("pushed"), &json!(5), &json!(6))
    );

    let said = run(&ground, &["restore", "net", "5"]).assert_success();
    assert!(said.stderr.contains("serial 6 → 7, 2 resources"), "{said:?}");
    assert_eq!(
        (&current(&ground)["serial"], current(&ground)["resources"].as_array().unwrap().len()),
        (&json!(7), 2)
    );
    assert_eq!(last_change(&ground)["change"], "restored");
    run(&ground, &["restore", "net", "12"])
        .assert_refused(&["no version 12", "capt state versions default/net"]);
}

#[test]
fn a_state_from_standard_input_is_pushed() {
    let ground = harness_with_workspace();
    let push = ["state", "push", "net", "-", "--data", "data"];
    ground.capt(&push).stdin(state(LINEAGE, 8, &["z"])).run().assert_success();
    assert_eq!(current(&ground)["serial"], 9);
    ground.capt(&push).stdin("{}").run().assert_refused(&["the state on standard input is not a complete"]);
}

#[test]
fn what_would_forget_resources_is_refused_without_force() {
    let ground = harness_with_workspace();
    let before = current(&ground);
    ground.write("other", state("another-lineage", 9, &["a"]));
    ground.write("empty", state(LINEAGE, 9, &[]));
    ground.write("torn", &state(LINEAGE, 9, &["a"])[..50]);
    run(&ground, &["push", "net", "other"]).assert_refused(&["lineage another-lineage", LINEAGE, "--force"]);
    run(&ground, &["push", "net", "empty"]).assert_refused(&["has no resources", "has 2", "--force"]);
    run(&ground, &["push", "net", "torn", "--force"])
        .assert_refused(&["torn is not a complete Terraform state"]);
    run(&ground, &["push", "net", "absent"]).assert_refused(&["cannot read absent"]);
    run(&ground, &["push", "nothing", "other"])
        .assert_refused(&["no workspace default/nothing", "default/net"]);
    assert_eq!(current(&ground), before);
    run(&ground, &["push", "net", "other", "--force"]).assert_success();
    assert_eq!(
        (&current(&ground)["lineage"], &current(&ground)["serial"]),
        (&json!("another-lineage"), &json!(10))
    );
}

#[test]
fn nothing_is_changed_while_a_run_is_active() {
    let ground = harness_with_workspace();
    let before = current(&ground);
    ground.write("fixed", state(LINEAGE, 9, &["a"]));
    for (file, texts) in [
        ("data/lock".to_owned(), ["data is in use by somebody", "wait until it is done"]),
        (
            format!("{WORKSPACE}/.capt/lock"),
            ["a run of default/net is active (somebody)", "wait until it is done"],
        ),
        (
            format!("{WORKSPACE}/.capt/runs/20260101-apply/lock"),
            ["a terraform of default/net still runs", "20260101-apply"],
        ),
    ] {
        ground.write(&file, "somebody");
        let held = File::options().read(true).write(true).open(ground.path(&file)).unwrap();
        held.lock().unwrap();
        for args in [&["push", "net", "fixed"][..], &["restore", "net", "4"], &["unlock", "net"]] {
            run(&ground, args).assert_refused(&texts);
        }
        run(&ground, &["pull", "net"]).assert_success();
        drop(held);
    }
    assert_eq!(current(&ground), before);
    run(&ground, &["push", "net", "fixed"]).assert_success();
}

#[test]
fn a_lock_is_removed_only_from_the_dead() {
    let ground = harness_with_workspace();
    let said = run(&ground, &["unlock", "net"]).assert_success();
    assert!(said.stderr.contains("default/net is not locked"), "{said:?}");
    let note = format!("{WORKSPACE}/.terraform.tfstate.lock.info");
    ground.write(&note, "{}");
    let said = run(&ground, &["unlock", "net"]).assert_success();
    assert!(said.stderr.contains("its owner is dead") && !ground.has(&note), "{said:?}");
}

#[test]
fn the_state_of_an_operator_is_changed_in_its_cluster() {
    let ground = harness_with_workspace();
    ground.write(&format!("{WORKSPACE}/.capt/backup.json"), "{}");
    run(&ground, &["restore", "net", "4"]).assert_refused(&[
        "belongs to an operator",
        "--kubeconfig",
        "--force",
    ]);
    run(&ground, &["restore", "net", "4", "--force"]).assert_success();
}

#[test]
fn a_directory_without_workspaces_is_named_with_the_flags() {
    let ground = CliHarness::new();
    run(&ground, &["list"]).assert_refused(&["data contains no workspace", "--data", "--kubeconfig"]);
    assert!(!ground.has("data"), "asking makes nothing");
    ground.capt(&["state"]).run().assert_usage_error(&["list", "restore"]);
}
