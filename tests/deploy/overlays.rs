//! The manifests, as `kubectl kustomize` renders them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

/// What a user applies. Each is a directory below `deploy/`.
pub(crate) const OVERLAYS: [&str; 5] =
    ["base", "webhook", "standalone", "clusterctl/infrastructure", "clusterctl/control-plane"];

/// And what is applied in each namespace: one with sandboxes, one with an operator of its own.
const OF_NAMESPACE: [&str; 3] = ["router", "router-own", "namespaced"];

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read_file(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The objects of one directory below `deploy/`. Rendered once: kubectl takes its time.
pub(crate) fn rendered_overlay(overlay: &str) -> Vec<Value> {
    static CACHE: [OnceLock<Vec<Value>>; OVERLAYS.len() + OF_NAMESPACE.len()] =
        [const { OnceLock::new() }; OVERLAYS.len() + OF_NAMESPACE.len()];
    let mut all = OVERLAYS.iter().chain(&OF_NAMESPACE);
    let index = all.position(|it| *it == overlay).expect("one of the overlays");
    CACHE[index].get_or_init(|| render_overlay(overlay)).clone()
}

#[expect(clippy::disallowed_methods, reason = "a person types this")]
fn render_overlay(overlay: &str) -> Vec<Value> {
    let directory = repository().join("deploy").join(overlay);
    let mut command = Command::new("kubectl");
    let output = command.arg("kustomize").arg(&directory).stdin(Stdio::null()).output();
    let output = output.expect("kubectl is on the PATH");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{overlay}: {words}");
    // A word of kustomize is a warning: something is deprecated, or was not found.
    assert!(words.is_empty(), "{overlay}: {words}");
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

/// The objects of a kind.
pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|it| it["kind"] == kind).collect()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// `Kind namespace/name`
pub(crate) fn title(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().map(|it| format!("{it}/")).unwrap_or_default();
    format!("{} {namespace}{}", object["kind"].as_str().unwrap(), name(object))
}

/// Files of a directory with this extension.
pub(crate) fn files_with_extension(directory: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(directory)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    found.sort();
    found
}

#[test]
fn every_directory_renders_and_every_object_says_whose_it_is() {
    for overlay in OVERLAYS {
        let objects = rendered_overlay(overlay);
        assert!(!objects.is_empty(), "{overlay}");
        for object in &objects {
            let label = &object["metadata"]["labels"]["cluster.x-k8s.io/provider"];
            let standalone = object["metadata"]["labels"].get("capt.x-k8s.io/standalone").is_some();
            let known = label == "infrastructure-capt" || label == "control-plane-capt";
            assert!(known || standalone, "{overlay}: {} has the provider label {label}", title(object));
        }
    }
}

#[test]
fn everything_with_a_namespace_is_in_the_one_that_comes_along() {
    for overlay in OVERLAYS {
        let objects = rendered_overlay(overlay);
        let namespaces = of_kind(&objects, "Namespace");
        assert_eq!(namespaces.len(), 1, "{overlay}");
        for object in objects.iter().filter(|it| it["metadata"].get("namespace").is_some()) {
            assert_eq!(object["metadata"]["namespace"], *name(namespaces[0]), "{overlay}: {}", title(object));
        }
    }
}

#[test]
fn every_crd_is_part_of_the_base() {
    let base = rendered_overlay("base");
    let mut found: Vec<String> =
        of_kind(&base, "CustomResourceDefinition").into_iter().map(|it| name(it).to_owned()).collect();
    found.sort();
    let mut written: Vec<String> = files_with_extension("crds", "yaml")
        .iter()
        .map(|path| {
            let crd: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            name(&crd).to_owned()
        })
        .collect();
    written.sort();
    assert_eq!(found, written);
    assert_eq!(found.len(), capt_kinds::api::crds().len());
}

#[test]
fn only_the_standalone_overlay_brings_the_cluster_kind() {
    for overlay in OVERLAYS {
        let objects = rendered_overlay(overlay);
        let brings = objects.iter().any(|it| name(it) == "clusters.cluster.x-k8s.io");
        assert_eq!(brings, overlay == "standalone", "{overlay}");
    }
}
