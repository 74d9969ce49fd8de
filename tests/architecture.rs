//! Dependency rules between the crates of the workspace, and between the modules of our layers. A failure names the rule that
//! is broken.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

mod controllers;
mod rules;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use self::rules::{CRATES, CrateRule, IO_PATHS, KINDS_DEPENDENCIES, MODULES, NOT_WRITERS, PURE, WRITE_PATHS};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates that [`MODULES`] describes.
const LAYERS: &[&str] =
    &["capt", "capt-controllers", "capt-dataplane", "capt-engine", "capt-kinds", "capt-kube", "capt-model"];

/// The source folder of a crate, by its name in Rust.
fn source_folder(krate: &str) -> PathBuf {
    let rule = CRATES.iter().find(|(_, name, ..)| name.replace('-', "_") == krate);
    let (folder, ..) = rule.unwrap_or_else(|| panic!("{krate} is not listed in CRATES"));
    repository().join(folder).join("src")
}

/// The files of a module such as `capt_engine::runs`, or of a crate that is one module.
fn source_files(module: &str) -> Vec<(PathBuf, String)> {
    let (krate, inner) = module.split_once("::").unwrap_or((module, ""));
    let root = source_folder(krate);
    let mut found = Vec::new();
    collect_source_files(&root.join(inner), &mut found);
    let file = root.join(format!("{inner}.rs"));
    if file.exists() {
        found.push((file.clone(), fs::read_to_string(file).unwrap()));
    }
    assert!(!found.is_empty(), "{module} does not exist; update the rules of this test");
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

/// Whether a module is used: `root::x`, or `x` on a line of a nested `use root::{…}`. An empty module means anything of the crate.
fn uses_module(text: &str, root: &str, module: &str) -> bool {
    if module.is_empty() {
        return text.contains(&format!("{root}::"));
    }
    if text.contains(&format!("{root}::{module}::")) || text.contains(&format!("{root}::{module};")) {
        return true;
    }
    text.split(&format!("use {root}::{{")).skip(1).any(|tail| {
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

/// The modules of our layers, by the names of their files and directories.
fn modules() -> Vec<String> {
    let mut found = BTreeSet::new();
    for krate in LAYERS.iter().map(|name| name.replace('-', "_")) {
        if MODULES.iter().any(|(name, ..)| *name == krate) {
            found.insert(krate);
            continue;
        }
        let names = fs::read_dir(source_folder(&krate))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .filter(|name| name != "lib" && name != "main");
        found.extend(names.map(|name| format!("{krate}::{name}")));
    }
    found.into_iter().collect()
}

/// The files of a module that use another one.
fn users_of<'a>(
    files: &'a [(PathBuf, String)],
    module: &'a str,
    dependency: &'a str,
) -> impl Iterator<Item = &'a PathBuf> {
    let home = module.split("::").next().unwrap_or(module);
    let (krate, inner) = dependency.split_once("::").unwrap_or((dependency, ""));
    let root = if krate == home { "crate" } else { krate };
    files.iter().filter(move |(_, text)| uses_module(text, root, inner)).map(|(path, _)| path)
}

/// Violations of [`MODULES`] by a module with these files.
fn violations(module: &str, files: &[(PathBuf, String)], all: &[String]) -> Vec<String> {
    let Some((_, allowed, purpose)) = MODULES.iter().find(|(name, ..)| *name == module) else {
        return vec![format!("{module} is not listed in MODULES of tests/architecture/rules.rs")];
    };
    let forbidden =
        all.iter().filter(|other| *other != module && !allowed.contains(&other.as_str())).flat_map(|other| {
            users_of(files, module, other)
                .map(move |path| format!("{} uses {other}: {module} is {purpose}", path.display()))
        });
    let unused = allowed
        .iter()
        .filter(|other| users_of(files, module, other).next().is_none())
        .map(|other| format!("MODULES lets {module} use {other}, which it does not"));
    forbidden.chain(unused).collect()
}

#[test]
fn dependencies_point_in_one_direction() {
    let all = modules();
    assert!(all.len() > 10, "{all:?}");
    let mut broken: Vec<String> =
        all.iter().flat_map(|module| violations(module, &source_files(module), &all)).collect();
    let gone = MODULES.iter().filter(|(name, ..)| !all.iter().any(|module| module == name));
    broken.extend(gone.map(|(name, ..)| format!("MODULES lists {name}, which does not exist")));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_check_of_modules_finds_violations() {
    let all: Vec<String> = [
        "capt_kinds::api",
        "capt_controllers",
        "capt_model::model",
        "capt_model::modules",
        "capt_model::news",
    ]
    .map(str::to_owned)
    .to_vec();
    let file = |text: &str| vec![(PathBuf::from("x.rs"), text.to_owned())];
    let check = |module: &str, text: &str| violations(module, &file(text), &all);
    assert!(check("capt_model::model", "use capt_kinds::api::Kind;").is_empty());
    let upwards = check("capt_model::model", "use capt_kinds::{api::Kind};\nuse capt_controllers::run;");
    assert!(upwards.len() == 1 && upwards[0].contains("x.rs uses capt_controllers"), "{upwards:?}");
    let sideways = check("capt_model::model", "use capt_kinds::api::Kind;\nuse crate::{modules::Embedded};");
    assert!(sideways.len() == 1 && sideways[0].contains("x.rs uses capt_model::modules"), "{sideways:?}");
    assert!(check("capt_model::news", "")[0].contains("not listed"));
    assert!(check("capt_model::model", "")[0].contains("which it does not"));
}

/// The names in a section of a manifest, such as `[dependencies]`.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once(['.', ' ', '='])?.0.to_owned()))
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

/// Violations of [`CRATES`] by a crate with this manifest.
fn crate_violations((folder, name, allowed, purpose): &CrateRule, manifest: &str) -> Vec<String> {
    let ours = |dependency: &String| CRATES.iter().any(|(_, other, ..)| other == dependency);
    let used: Vec<String> = dependencies(manifest, "[dependencies]").into_iter().filter(ours).collect();
    let forbidden = used
        .iter()
        .filter(|it| !allowed.contains(&it.as_str()))
        .map(|it| format!("{folder}/Cargo.toml depends on {it}: {name} is {purpose}"));
    let unused = allowed
        .iter()
        .filter(|it| !used.iter().any(|other| other == *it))
        .map(|it| format!("CRATES lets {name} depend on {it}, which it does not"));
    forbidden.chain(unused).collect()
}

fn manifest(folder: &str) -> String {
    fs::read_to_string(repository().join(folder).join("Cargo.toml"))
        .unwrap_or_else(|error| panic!("{folder}/Cargo.toml, which CRATES lists: {error}"))
}

#[test]
fn crates_depend_only_on_what_is_listed() {
    let mut broken: Vec<String> =
        CRATES.iter().flat_map(|rule| crate_violations(rule, &manifest(rule.0))).collect();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        let folder = format!("crates/{}", entry.unwrap().file_name().into_string().unwrap());
        if !CRATES.iter().any(|(listed, ..)| *listed == folder) {
            broken.push(format!("{folder} is not listed in CRATES of tests/architecture/rules.rs"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_kinds_need_no_runtime_cloud_or_engine() {
    let text = manifest("crates/kinds");
    assert_eq!(dependencies(&text, "[dependencies]"), KINDS_DEPENDENCIES);
    let kube = text.lines().find(|line| line.starts_with("kube ")).unwrap();
    assert!(kube.contains("default-features = false, features = [\"derive\"]"), "{kube}");
}

#[test]
fn the_check_of_crates_finds_violations() {
    let rule = CRATES.iter().find(|(_, name, ..)| *name == "capt-kube").unwrap();
    let check = |text: &str| crate_violations(rule, &format!("[package]\n[dependencies]\n{text}\n[lints]\n"));
    let allowed = "capt-kinds.workspace = true\nlease-deadline.workspace = true\nterraform-driver = { workspace = true }\nserde.workspace = true";
    assert!(check(allowed).is_empty());
    let upwards = check(&format!("{allowed}\ncapt-engine.workspace = true"));
    assert!(upwards.len() == 1 && upwards[0].contains("depends on capt-engine"), "{upwards:?}");
    assert!(check("capt-kinds.workspace = true")[0].contains("which it does not"));
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

#[test]
fn the_operator_writes_to_the_kubernetes_api_in_one_room() {
    let mut broken = Vec::new();
    for module in NOT_WRITERS {
        for (path, text) in source_files(module) {
            // Tests act as users and as other controllers.
            let is_test = path.components().any(|part| part.as_os_str() == "tests")
                || path.ends_with("tests.rs")
                || path.ends_with("testing.rs");
            for pen in WRITE_PATHS.iter().filter(|pen| !is_test && text.contains(**pen)) {
                broken.push(format!(
                    "{} uses {pen}: only capt_kube::k8s writes to the API server",
                    path.display()
                ));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let pens = |text: &str| WRITE_PATHS.iter().any(|pen| text.contains(pen));
    assert!(
        source_files("capt_kube::k8s").iter().any(|(_, text)| pens(text)),
        "capt_kube::k8s does not write; update this test"
    );
}

/// In the gateway's crate only `plugin` starts processes, and the wire formats are pure.
#[test]
fn the_gateway_keeps_to_its_rooms() {
    let root = repository().join("crates/provider-gateway/src");
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

#[test]
fn the_check_itself_sees_what_it_looks_for() {
    assert!(uses_module("use crate::cli::output;", "crate", "cli"));
    assert!(uses_module("use capt_kinds::{\n    api::{A, B},\n    cli::output,\n};", "capt_kinds", "cli"));
    assert!(!uses_module("use crate::{\n    api::{cli, B},\n    model::cli,\n};", "crate", "cli"));
    assert!(!uses_module("use crate::client;", "crate", "cli"));
    assert!(!uses_module("use capt_kinds::cli::output;", "crate", "cli"));
    assert!(uses_module("use capt_dataplane::router;", "capt_dataplane", ""));
}

#[test]
fn only_the_command_line_uses_local_modules() {
    let mut files = Vec::new();
    for (folder, ..) in CRATES {
        collect_source_files(&repository().join(folder).join("src"), &mut files);
    }
    let grants = |(path, text): &(PathBuf, String)| {
        text.contains("LocalModules::of_the_command_line")
            && !path.starts_with(repository().join("src/cli"))
            && path.file_stem().is_none_or(|name| name != "tests")
    };
    let others: Vec<_> = files.iter().filter(|file| grants(file)).map(|(path, _)| path).collect();
    assert!(others.is_empty(), "templates of API objects must not use local modules: {others:?}");
}
