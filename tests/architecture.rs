//! Dependency rules between the modules of `src/`. A failure names the rule that is broken.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Module, the modules that it may use, and what it is for. A module that is missing here, a use that is not listed and an
/// entry that nothing uses are errors.
const ALLOWED: &[(&str, &[&str], &str)] = &[
    ("api", &[], "the kinds: data types, schemas and names"),
    ("aws", &[], "the only user of the AWS SDK; knows no kind"),
    ("certificate", &["k8s"], "certificates in a Secret or a file"),
    (
        "cli",
        &[
            "api",
            "aws",
            "config",
            "dataplane",
            "gateway",
            "k8s",
            "local",
            "manifest",
            "model",
            "oneshot",
            "operator",
            "pipeline",
            "workspaces",
        ],
        "one file per subcommand; nothing depends on it",
    ),
    ("config", &[], "the only reader of the environment"),
    (
        "controllers",
        &["api", "aws", "dataplane", "error", "k8s", "manifest", "model", "pipeline", "runs", "workspaces"],
        "reconcile objects through runs, k8s and aws; know neither their caller nor the command line",
    ),
    ("dataplane", &["certificate", "k8s"], "router and agent; know no controller, no Terraform and no cloud"),
    ("error", &[], "error classes for every module"),
    ("gateway", &["config", "local"], "provider gateway as a background process; knows no kind"),
    ("k8s", &["api", "error"], "the only writer to the Kubernetes API; decides nothing"),
    ("local", &["config"], "local AWS and embedded API as background processes; know no kind"),
    ("manifest", &["api", "model"], "files to validated objects"),
    ("model", &["api"], "validated values of the kinds"),
    ("modules", &[], "the embedded Terraform modules"),
    (
        "oneshot",
        &["manifest", "pipeline", "workspaces"],
        "plan, apply and destroy from files; knows no Kubernetes API",
    ),
    (
        "operator",
        &[
            "api",
            "aws",
            "certificate",
            "config",
            "controllers",
            "gateway",
            "k8s",
            "model",
            "pipeline",
            "runs",
            "server",
            "telemetry",
            "workspaces",
        ],
        "wires controllers, runs, server and leader election",
    ),
    (
        "pipeline",
        &["aws", "config", "gateway", "modules", "workspaces"],
        "steps of one workspace; knows neither Kubernetes nor its caller",
    ),
    (
        "runs",
        &["api", "aws", "pipeline", "workspaces"],
        "supervise runs; know neither the Kubernetes API nor the command line",
    ),
    (
        "server",
        &["api", "certificate", "model", "telemetry", "workspaces"],
        "health, metrics and webhook; knows no controller and no client",
    ),
    ("telemetry", &[], "logs and metrics for every module"),
    ("workspaces", &["api", "manifest", "model", "modules"], "objects to desired workspaces"),
];

/// Pure modules: no process, no socket, no file, no clock.
const PURE: &[&str] = &["api", "model", "manifest", "workspaces"];
const IO_PATHS: &[&str] =
    &["std::fs", "std::net", "std::process", "tokio::", "kube::Client", "Timestamp::now", "SystemTime::now"];

fn source_files(module: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect_source_files(&root.join(module), &mut found);
    let file = root.join(format!("{module}.rs"));
    if file.exists() {
        found.push((file.clone(), fs::read_to_string(file).unwrap()));
    }
    assert!(!found.is_empty(), "src/{module} does not exist; update the rules of this test");
    found
}

fn collect_source_files(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect_source_files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
}

/// Whether a module of this crate is used: `crate::x`, or `x` on a line of a nested `use crate::{…}`.
fn uses_module(text: &str, module: &str) -> bool {
    if text.contains(&format!("crate::{module}::")) || text.contains(&format!("crate::{module};")) {
        return true;
    }
    text.split("use crate::{").skip(1).any(|tail| {
        let block = tail.split("};").next().unwrap_or_default();
        let starts = |item: &str| item.trim().starts_with(&format!("{module}::")) || item.trim() == module;
        let mut depth = 0_i32;
        let mut item = String::new();
        let mut items = Vec::new();
        for letter in block.chars() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => items.push(std::mem::take(&mut item)),
                _ => {}
            }
            if letter != ',' || depth > 0 {
                item.push(letter);
            }
        }
        items.push(item);
        items.iter().any(|item| starts(item))
    })
}

/// The modules of `src/`, by the names of their files and directories.
fn modules() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: Vec<String> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "lib" && name != "main")
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The files that use a module.
fn users_of<'a>(files: &'a [(PathBuf, String)], module: &'a str) -> impl Iterator<Item = &'a PathBuf> {
    files.iter().filter(move |(_, text)| uses_module(text, module)).map(|(path, _)| path)
}

/// Violations of [`ALLOWED`] by a module with these files.
fn violations(module: &str, files: &[(PathBuf, String)], all: &[String]) -> Vec<String> {
    let Some((_, allowed, purpose)) = ALLOWED.iter().find(|(name, ..)| *name == module) else {
        return vec![format!("src/{module} is not listed in ALLOWED of tests/architecture.rs")];
    };
    let forbidden =
        all.iter().filter(|other| *other != module && !allowed.contains(&other.as_str())).flat_map(|other| {
            users_of(files, other)
                .map(move |path| format!("{} uses crate::{other}: {module} is {purpose}", path.display()))
        });
    let unused = allowed
        .iter()
        .filter(|other| users_of(files, other).next().is_none())
        .map(|other| format!("ALLOWED lets {module} use {other}, which it does not"));
    forbidden.chain(unused).collect()
}

#[test]
fn dependencies_point_in_one_direction() {
    let all = modules();
    assert!(all.len() > 10, "{all:?}");
    let mut broken: Vec<String> =
        all.iter().flat_map(|module| violations(module, &source_files(module), &all)).collect();
    let gone = ALLOWED.iter().filter(|(name, ..)| !all.iter().any(|module| module == name));
    broken.extend(gone.map(|(name, ..)| format!("ALLOWED lists {name}, which does not exist")));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_check_of_modules_finds_violations() {
    let all: Vec<String> = ["api", "controllers", "model", "news"].map(str::to_owned).to_vec();
    let file = |text: &str| vec![(PathBuf::from("x.rs"), text.to_owned())];
    assert!(violations("model", &file("use crate::api::Kind;"), &all).is_empty());
    let upwards = violations("model", &file("use crate::{api::Kind, controllers::run};"), &all);
    assert!(upwards.len() == 1 && upwards[0].contains("x.rs uses crate::controllers"), "{upwards:?}");
    assert!(violations("news", &file(""), &all)[0].contains("not listed"));
    assert!(violations("model", &file(""), &all)[0].contains("which it does not"));
}

#[test]
fn pure_modules_touch_nothing() {
    let mut broken = Vec::new();
    for module in PURE {
        for (path, text) in source_files(module) {
            for word in IO_PATHS {
                if text.contains(word) {
                    broken.push(format!("{} uses {word}: {module} is pure", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Paths that are needed to write to the Kubernetes API.
const WRITE_PATHS: &[&str] = &["Patch::", "PatchParams", "PostParams", "DeleteParams"];

#[test]
fn the_operator_writes_to_the_kubernetes_api_in_one_room() {
    let mut broken = Vec::new();
    for module in ["certificate", "controllers", "operator", "runs", "dataplane", "server", "pipeline"] {
        for (path, text) in source_files(module) {
            // Tests act as users and as other controllers.
            let is_test = path.components().any(|part| part.as_os_str() == "tests")
                || path.ends_with("tests.rs")
                || path.ends_with("testing.rs");
            for pen in WRITE_PATHS.iter().filter(|pen| !is_test && text.contains(**pen)) {
                broken.push(format!("{} uses {pen}: only src/k8s writes to the API server", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let pens = |text: &str| WRITE_PATHS.iter().any(|pen| text.contains(pen));
    assert!(
        source_files("k8s").iter().any(|(_, text)| pens(text)),
        "src/k8s does not write; update this test"
    );
}

/// In the gateway's crate only `plugin` starts processes, and the wire formats are pure.
#[test]
fn the_gateway_keeps_to_its_rooms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/provider-gateway/src");
    let mut found = Vec::new();
    collect_source_files(&root, &mut found);
    assert!(found.len() > 20, "crates/provider-gateway/src does not exist; update the rules of this test");
    let mut broken = Vec::new();
    for (path, text) in found {
        let inside = path.strip_prefix(&root).unwrap();
        let starts = text.contains("process::Command") || text.contains("process::{Child, Command}");
        if starts && !inside.starts_with("plugin") {
            broken.push(format!("{} starts processes: only plugin may", path.display()));
        }
        let pure = inside.starts_with("wire") || inside.ends_with("probe/fingerprint.rs");
        for word in
            ["tokio::", "std::fs", "std::net", "UnixStream"].iter().filter(|word| text.contains(**word))
        {
            if pure {
                broken.push(format!("{} uses {word}, but must be pure", path.display()));
            }
        }
        for word in ["kube::", "k8s_openapi", "aws_sdk"].iter().filter(|word| text.contains(**word)) {
            broken.push(format!("{} uses {word}: the gateway must not depend on it", path.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The folder that every controller may use.
const COMMON: &str = "common";

#[test]
fn no_controller_uses_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controllers");
    let folders: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(folders.iter().any(|it| it == COMMON) && folders.len() > 1, "{folders:?}");
    let mut broken = Vec::new();
    for folder in &folders {
        let mut found = Vec::new();
        collect_source_files(&root.join(folder), &mut found);
        for (path, text) in found {
            for other in folders.iter().filter(|it| *it != folder && *it != COMMON) {
                if uses_controller(&text, other) {
                    broken.push(format!(
                        "{} uses controllers/{other}: a controller may use only its own folder and common",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Whether another controller is used: by its full path, or through `super`.
fn uses_controller(text: &str, other: &str) -> bool {
    let paths =
        [format!("controllers::{other}::"), format!("super::{other}::"), format!("controllers::{other};")];
    let nested = text.split("controllers::{").skip(1).any(|tail| {
        let block = tail.split("};").next().unwrap_or_default();
        block.split(['{', ',', '\n']).any(|item| item.trim().starts_with(&format!("{other}::")))
    });
    nested || paths.iter().any(|path| text.contains(path.as_str()))
}

#[test]
fn the_check_of_controllers_sees_what_it_looks_for() {
    assert!(uses_controller("use crate::controllers::standalone::kind;", "standalone"));
    assert!(uses_controller("use super::super::standalone::kind;", "standalone"));
    assert!(uses_controller(
        "use crate::controllers::{\n    common::gate,\n    standalone::kind,\n};",
        "standalone"
    ));
    assert!(!uses_controller("use crate::controllers::{\n    common::standalone,\n};", "standalone"));
    assert!(!uses_controller("use crate::controllers::common::gate;", "standalone"));
}

#[test]
fn the_check_itself_sees_what_it_looks_for() {
    assert!(uses_module("use crate::cli::output;", "cli"));
    assert!(uses_module("use crate::{\n    api::{A, B},\n    cli::output,\n};", "cli"));
    assert!(!uses_module("use crate::{\n    api::{cli, B},\n    model::cli,\n};", "cli"));
    assert!(!uses_module("use crate::client;", "cli"));
}
