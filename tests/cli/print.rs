//! Commands that only print: `crds`, `completions`, `version`, and the help; and mistakes in the arguments.

use std::{collections::BTreeSet, fs, fs::OpenOptions, path::Path};

use serde_json::Value;

use super::harness::{CliHarness, QUICKSTART, engine_script};

fn committed_crds() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

#[test]
fn crds_prints_ten_kinds_as_yaml_documents() {
    let said = CliHarness::new().capt(&["crds"]).run().assert_success();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&said.stdout).unwrap();
    let kinds: BTreeSet<&str> =
        documents.iter().map(|it| it["spec"]["names"]["kind"].as_str().unwrap()).collect();
    let wanted = [
        "CAPTCluster",
        "CAPTClusterTemplate",
        "CAPTControlPlane",
        "CAPTControlPlaneTemplate",
        "CAPTIdentity",
        "LocalWorkload",
        "RouteGroup",
        "Sandbox",
        "WorkspaceTemplate",
        "WorkspaceTemplateApply",
    ];
    assert_eq!(kinds, BTreeSet::from(wanted));
    assert_eq!(documents.len(), wanted.len());
    assert!(documents.iter().all(|it| it["kind"] == "CustomResourceDefinition"));
}

#[test]
fn crds_prints_what_the_directory_holds() {
    let said = CliHarness::new().capt(&["crds"]).run().assert_success();
    let mut printed: Vec<&str> = said.stdout.split("\n---\n").map(str::trim_end).collect();
    let committed = committed_crds();
    let mut wanted: Vec<&str> = committed.iter().map(|(_, text)| text.trim_end()).collect();
    printed.sort_unstable();
    wanted.sort_unstable();
    assert!(printed == wanted, "capt crds and crds/ differ");
}

#[test]
fn crds_writes_the_same_into_a_directory_that_need_not_exist() {
    let ground = CliHarness::new();
    ground.capt(&["crds", "--write", "new/crds"]).run().assert_success();
    let committed = committed_crds();
    for (name, text) in &committed {
        assert!(ground.read(&format!("new/crds/{name}")) == *text, "{name}");
    }
    assert_eq!(fs::read_dir(ground.path("new/crds")).unwrap().count(), committed.len());
}

#[test]
fn crds_that_cannot_be_written_are_refused() {
    let ground = CliHarness::new();
    ground.write("file", "");
    ground.capt(&["crds", "--write", "file/crds"]).run().assert_refused(&["writing the CRDs", "file/crds"]);
}

#[test]
fn a_standard_output_that_takes_nothing_is_an_error() {
    let ground = CliHarness::new();
    let capt = env!("CARGO_BIN_EXE_capt");
    assert!(OpenOptions::new().write(true).open("/dev/full").is_ok());
    let said = ground.program(Path::new("/bin/sh"), &["-c", &format!("{capt} crds > /dev/full")]).run();
    said.assert_refused(&["cannot write to standard output", "No space left"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let ground = CliHarness::new();
    let capt = env!("CARGO_BIN_EXE_capt");
    let script = format!("{{ {capt} crds; echo $? > code; }} | read line");
    ground.program(Path::new("/bin/sh"), &["-c", &script]).run().assert_success();
    assert_eq!(ground.read("code").trim(), "0");
}

#[test]
fn completions_know_the_subcommands_and_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = CliHarness::new().capt(&["completions", shell]).run().assert_success();
        for word in ["render", "completions", "inventory", "provider-mirror"] {
            assert!(said.stdout.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn version_is_json_when_asked() {
    let ground = CliHarness::new();
    let said = ground.capt_with_engine(&["version", "-o", "json"]).run().assert_success();
    let version: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(version["capt"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["engine"], "Terraform 1.11.4");
    assert_eq!(version["enginePath"], engine_script("new"));
    assert_eq!(version["providers"], serde_json::json!(["registry.terraform.io/hashicorp/aws 6.0.0"]));
    assert_eq!(version["problem"], Value::Null);
}

#[test]
fn version_tells_what_is_wrong_with_what_it_found_and_still_is_json() {
    let said = CliHarness::new().capt(&["version", "-o", "json"]).run();
    assert_eq!(said.code, Some(1), "{said:?}");
    let version: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(version["capt"], env!("CARGO_PKG_VERSION"));
    assert!(version["problem"].as_str().unwrap().contains("terraform or tofu was not found"), "{version}");
}

#[test]
fn version_for_people_shows_the_engine_and_the_providers() {
    let ground = CliHarness::new();
    let said = ground.capt_with_engine(&["version"]).run().assert_success();
    for text in ["Terraform 1.11.4", &engine_script("new"), "hashicorp/aws 6.0.0", "mirror"] {
        assert!(said.stdout.contains(text), "{said:?}");
    }
}

#[test]
fn every_subcommand_explains_itself() {
    let commands = ["render", "plan", "apply", "destroy", "aws", "crds", "version", "completions"];
    let all = CliHarness::new().capt(&["--help"]).run().assert_success();
    for command in commands {
        assert!(
            all.stdout.lines().any(|line| line.trim_start().starts_with(&format!("{command} "))),
            "{command}"
        );
        let said = CliHarness::new().capt(&[command, "--help"]).run().assert_success();
        assert!(said.stdout.contains(&format!("Usage: capt {command}")), "{said:?}");
    }
    assert!(all.stdout.contains("Exit codes: 0 success, 1 invalid input"));
}

#[test]
fn a_mistake_in_the_arguments_is_exit_code_2() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    let misused = |args: &[&str], texts: &[&str]| ground.capt(args).run().assert_usage_error(texts);
    misused(&[], &["Usage: capt <COMMAND>"]);
    misused(&["rendre"], &["'rendre'", "similar", "render"]);
    misused(&["apply"], &["<FILE>...", "Usage: capt apply"]);
    misused(&["render", "demo.yaml"], &["--output <DIR>"]);
    misused(&["plan", "demo.yaml", "--aws", "moon"], &["'moon'", "local", "real"]);
    misused(&["plan", "demo.yaml", "--dat", "x"], &["'--dat'", "--data"]);
    misused(&["plan", "demo.yaml", "--parallel", "many"], &["'many'", "--parallel"]);
    misused(&["version", "-o", "toml"], &["'toml'", "text", "json", "yaml"]);
    misused(&["completions", "tcsh"], &["'tcsh'", "bash"]);
    misused(&["render", "demo.yaml", "-o", "out", "--yes"], &["'--yes'"]);
    assert!(!ground.has("out"));
}
