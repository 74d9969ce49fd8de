//! The controllers: each has the same files, and none uses another.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{collect_source_files, source_folder};

/// Shared code of all controllers, and of the controllers of Sandboxes.
const COMMON: &str = "common";
const SANDBOX_COMMON: &str = "sandbox_common";
const SANDBOX_CONTROLLERS: [&str; 4] = ["localworkload", "routegroup", "sandbox", "service_takeover"];

/// The folders of the controllers.
fn controller_folders() -> Vec<PathBuf> {
    let root = source_folder("capt_controllers");
    let mut all: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    all.sort();
    all
}

fn folder_name(folder: &Path) -> &str {
    folder.file_name().unwrap().to_str().unwrap()
}

/// The shared folders that a controller, or a shared folder, may use.
fn may_use(folder: &str, other: &str) -> bool {
    other == COMMON || (other == SANDBOX_COMMON && SANDBOX_CONTROLLERS.contains(&folder))
}

#[test]
fn no_controller_uses_another() {
    let folders = controller_folders();
    let names: Vec<&str> = folders.iter().map(|it| folder_name(it)).collect();
    assert!(names.contains(&COMMON) && names.contains(&SANDBOX_COMMON) && names.len() > 2, "{names:?}");
    let mut broken = Vec::new();
    for folder in &folders {
        let (name, mut found) = (folder_name(folder), Vec::new());
        collect_source_files(folder, &mut found);
        for (path, text) in found {
            for other in names.iter().filter(|it| **it != name && !may_use(name, it)) {
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

/// The files of every controller, in the order of a reconcile.
const STEPS: [&str; 9] =
    ["mod", "watch", "dereference", "validate", "decide", "act", "status", "events", "tests"];

/// Controller, the step that it does not have, and why.
const ABSENT_STEPS: &[(&str, &str, &str)] = &[
    ("capi_cluster", "validate", "the CRD of Cluster API validates Clusters"),
    ("localworkload", "act", "it writes nothing but its status"),
    ("service_takeover", "status", "a Service has no status of ours"),
];

/// Controller, the step that `mod.rs` does not call by its file name, and where it is called.
const NESTED_STEPS: &[(&str, &str, &str)] = &[
    ("sandbox", "decide", "fork_pass.rs, once for all forks"),
    ("sandbox", "act", "fork_pass.rs, once for all forks"),
    ("service_takeover", "validate", "dereference.rs, which reads nothing for other Services"),
    ("service_takeover", "events", "act.rs, after each step"),
    ("workspace", "validate", "inputs.rs, which reads what the valid spec names"),
];

/// Deviations of a controller from the common skeleton.
fn skeleton_deviations(folder: &Path) -> Vec<String> {
    let name = folder_name(folder);
    let listed =
        |table: &[(&str, &str, &str)], step: &str| table.iter().any(|(a, b, _)| (*a, *b) == (name, step));
    let text = fs::read_to_string(folder.join("mod.rs")).unwrap_or_default();
    let mut found = Vec::new();
    for step in STEPS {
        let exists = folder.join(format!("{step}.rs")).exists() || folder.join(step).join("mod.rs").exists();
        if exists == listed(ABSENT_STEPS, step) {
            let what = if exists { "exists, but is listed in ABSENT_STEPS" } else { "is missing" };
            found.push(format!("controllers/{name}/{step}.rs {what}"));
        }
        let is_called = text.contains(&format!("{step}::"));
        let is_step = exists && !["mod", "watch", "tests"].contains(&step);
        if is_step && is_called == listed(NESTED_STEPS, step) {
            let what =
                if is_called { "calls it, but NESTED_STEPS says otherwise" } else { "does not call it" };
            found.push(format!("controllers/{name}/{step}.rs: mod.rs {what}"));
        }
    }
    found
}

#[test]
fn every_controller_has_the_same_files_and_calls_them_by_name() {
    let controllers: Vec<PathBuf> = controller_folders()
        .into_iter()
        .filter(|it| ![COMMON, SANDBOX_COMMON].contains(&folder_name(it)))
        .collect();
    assert!(controllers.len() > 5, "{controllers:?}");
    let broken: Vec<String> = controllers.iter().flat_map(|it| skeleton_deviations(it)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Whether another controller is used: by its full path, or through `super`.
fn uses_controller(text: &str, other: &str) -> bool {
    let paths = [format!("crate::{other}::"), format!("super::{other}::"), format!("crate::{other};")];
    let nested = text.split("use crate::{").skip(1).any(|tail| {
        let block = tail.split("};").next().unwrap_or_default();
        block.split(['{', ',', '\n']).any(|item| item.trim().starts_with(&format!("{other}::")))
    });
    nested || paths.iter().any(|path| text.contains(path.as_str()))
}

#[test]
fn the_check_of_controllers_sees_what_it_looks_for() {
    assert!(uses_controller("use crate::standalone::kind;", "standalone"));
    assert!(uses_controller("use super::super::standalone::kind;", "standalone"));
    assert!(uses_controller("use crate::{\n    common::gate,\n    standalone::kind,\n};", "standalone"));
    assert!(!uses_controller("use crate::{\n    common::standalone,\n};", "standalone"));
    assert!(!uses_controller("use crate::common::gate;", "standalone"));
}
