//! Who may use whom inside of `src/`. A broken rule is named with its sentence.

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

/// Module, what it must not use, and why.
const RULES: &[(&str, &[&str], &str)] = &[
    (
        "api",
        &["aws", "blueprint", "cli", "config", "k8s", "local", "manifest", "model", "modules", "oneshot"],
        "api is data: kinds, schema, words; it uses nothing of ours",
    ),
    (
        "model",
        &["aws", "blueprint", "cli", "config", "k8s", "local", "manifest", "modules", "oneshot"],
        "model gives the kinds their meaning; it knows api alone",
    ),
    (
        "manifest",
        &["aws", "blueprint", "cli", "config", "k8s", "local", "modules", "oneshot"],
        "manifest turns files into validated objects; it knows api and model",
    ),
    (
        "blueprint",
        &["aws", "cli", "config", "k8s", "local", "oneshot"],
        "blueprint is pure: objects in, workspaces out",
    ),
    (
        "aws",
        &["api", "blueprint", "cli", "k8s", "local", "manifest", "model", "oneshot"],
        "aws talks to AWS and knows no kind of ours",
    ),
    (
        "local",
        &["api", "aws", "blueprint", "cli", "k8s", "manifest", "model", "oneshot"],
        "local runs the local AWS and knows no kind of ours",
    ),
    (
        "oneshot",
        &["cli", "k8s", "local"],
        "oneshot does the work; what starts it is somebody else's business",
    ),
    (
        "config",
        &["api", "aws", "blueprint", "cli", "k8s", "local", "manifest", "model", "oneshot"],
        "config reads the environment and uses nothing of ours",
    ),
    (
        "k8s",
        &[
            "aws",
            "blueprint",
            "cli",
            "config",
            "controllers",
            "local",
            "manifest",
            "model",
            "modules",
            "oneshot",
            "operator",
            "runs",
            "server",
            "work",
        ],
        "k8s writes to the API server and decides nothing; it knows api and error",
    ),
    (
        "certificate",
        &[
            "api",
            "aws",
            "blueprint",
            "cli",
            "config",
            "controllers",
            "local",
            "manifest",
            "model",
            "modules",
            "oneshot",
            "operator",
            "runs",
            "sandbox",
            "server",
            "telemetry",
            "work",
        ],
        "certificate makes and keeps certificates, in a Secret or a file; who serves them is somebody else's business",
    ),
    (
        "gateway",
        &[
            "api",
            "aws",
            "blueprint",
            "cli",
            "controllers",
            "k8s",
            "manifest",
            "model",
            "modules",
            "oneshot",
            "operator",
            "runs",
            "server",
            "telemetry",
            "work",
        ],
        "gateway runs and lends providers; it knows no kind of ours and no cloud",
    ),
    (
        "error",
        &[
            "api",
            "aws",
            "blueprint",
            "cli",
            "config",
            "controllers",
            "k8s",
            "local",
            "manifest",
            "model",
            "modules",
            "oneshot",
            "operator",
            "runs",
            "server",
            "work",
        ],
        "error is for all, and uses nothing of ours",
    ),
    (
        "telemetry",
        &[
            "api",
            "aws",
            "blueprint",
            "cli",
            "config",
            "controllers",
            "k8s",
            "local",
            "manifest",
            "model",
            "modules",
            "oneshot",
            "operator",
            "runs",
            "server",
            "work",
        ],
        "telemetry is for everybody and so uses nothing of ours",
    ),
    (
        "server",
        &["aws", "cli", "config", "controllers", "k8s", "local", "oneshot", "operator", "runs", "work"],
        "server answers; it knows no controllers, no runs and no client: what it asks, it asks through traits",
    ),
    (
        "work",
        &["cli", "controllers", "k8s", "local", "oneshot", "operator", "runs", "server", "telemetry"],
        "work brings one workspace to what it should be; who waits and who watches is somebody else's business",
    ),
    (
        "runs",
        &["cli", "controllers", "k8s", "local", "manifest", "oneshot", "operator", "server", "telemetry"],
        "runs supervise; they know neither Kubernetes nor the command line",
    ),
    (
        "controllers",
        &["cli", "config", "local", "oneshot", "operator", "server"],
        "controllers decide and act through runs, k8s and aws; what starts them is somebody else's business",
    ),
    (
        "sandbox",
        &[
            "aws",
            "blueprint",
            "cli",
            "controllers",
            "local",
            "manifest",
            "model",
            "modules",
            "oneshot",
            "operator",
            "runs",
            "work",
        ],
        "sandbox is what routers and developers' machines run; it knows k8s, and no controller and no cloud",
    ),
    (
        "operator",
        &["cli", "local", "oneshot"],
        "operator joins the controllers; what starts it is somebody else's business",
    ),
];

/// Pure modules: no process, no socket, no file, no clock.
const PURE: &[&str] = &["api", "model", "manifest", "blueprint"];
const WORLD: &[&str] =
    &["std::fs", "std::net", "std::process", "tokio::", "kube::Client", "Timestamp::now", "SystemTime::now"];

fn sources(module: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect(&root.join(module), &mut found);
    let file = root.join(format!("{module}.rs"));
    if file.exists() {
        found.push((file.clone(), fs::read_to_string(file).unwrap()));
    }
    assert!(!found.is_empty(), "src/{module} is gone; correct the rules of this test");
    found
}

fn collect(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
}

/// Whether a module of ours is used: `crate::x`, or `x` on a line of a nested `use crate::{…}`.
fn uses(text: &str, module: &str) -> bool {
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

#[test]
fn dependencies_point_in_one_direction() {
    let mut broken = Vec::new();
    for (module, forbidden, rule) in RULES {
        for (path, text) in sources(module) {
            for other in *forbidden {
                if uses(&text, other) {
                    broken.push(format!("{} uses crate::{other}: {rule}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pure_modules_touch_nothing() {
    let mut broken = Vec::new();
    for module in PURE {
        for (path, text) in sources(module) {
            for word in WORLD {
                if text.contains(word) {
                    broken.push(format!("{} uses {word}: {module} is pure", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What it takes to write to the Kubernetes API.
const PENS: &[&str] = &["Patch::", "PatchParams", "PostParams", "DeleteParams"];

#[test]
fn the_operator_writes_to_the_kubernetes_api_in_one_room() {
    let mut broken = Vec::new();
    for module in ["certificate", "controllers", "operator", "runs", "sandbox", "server", "work"] {
        for (path, text) in sources(module) {
            // Tests play the people and the controllers around us.
            let is_test = path.components().any(|part| part.as_os_str() == "tests")
                || path.ends_with("tests.rs")
                || path.ends_with("rig.rs");
            for pen in PENS.iter().filter(|pen| !is_test && text.contains(**pen)) {
                broken.push(format!("{} uses {pen}: what is written goes through src/k8s", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let pens = |text: &str| PENS.iter().any(|pen| text.contains(pen));
    assert!(sources("k8s").iter().any(|(_, text)| pens(text)), "nobody writes; correct this test");
}

/// Processes are started in one room of the gateway's crate, and its wire formats are pure.
#[test]
fn the_gateway_keeps_to_its_rooms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/provider-gateway/src");
    let mut found = Vec::new();
    collect(&root, &mut found);
    assert!(found.len() > 20, "crates/provider-gateway/src is gone; correct the rules of this test");
    let mut broken = Vec::new();
    for (path, text) in found {
        let inside = path.strip_prefix(&root).unwrap();
        let starts = text.contains("process::Command") || text.contains("process::{Child, Command}");
        if starts && !inside.starts_with("plugin") {
            broken.push(format!("{} starts processes: that is what plugin is for", path.display()));
        }
        let pure = inside.starts_with("wire") || inside.ends_with("probe/fingerprint.rs");
        for word in
            ["tokio::", "std::fs", "std::net", "UnixStream"].iter().filter(|word| text.contains(**word))
        {
            if pure {
                broken.push(format!("{} uses {word}: it is pure", path.display()));
            }
        }
        for word in ["kube::", "k8s_openapi", "aws_sdk"].iter().filter(|word| text.contains(**word)) {
            broken.push(format!("{} uses {word}: the gateway knows nothing of it", path.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What may be used by every controller.
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
        collect(&root.join(folder), &mut found);
        for (path, text) in found {
            for other in folders.iter().filter(|it| *it != folder && *it != COMMON) {
                if uses_controller(&text, other) {
                    broken.push(format!(
                        "{} uses controllers/{other}: a controller knows its own kind and what is common",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Whether another controller is used: by its whole path, or as a neighbour.
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
    assert!(uses("use crate::cli::output;", "cli"));
    assert!(uses("use crate::{\n    api::{A, B},\n    cli::output,\n};", "cli"));
    assert!(!uses("use crate::{\n    api::{cli, B},\n    model::cli,\n};", "cli"));
    assert!(!uses("use crate::client;", "cli"));
}
