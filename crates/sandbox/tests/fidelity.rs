//! A fork is its baseline but for the documented edits (sandbox F7), on a corpus of Deployments.
//!
//! Each file of `tests/corpus` has a baseline and a fork; what is made of it is in `tests/corpus/golden`. After a change that
//! is meant: `CAPT_WRITE_GOLDENS=1 cargo test -p sandbox --test fidelity`, and a look at the difference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{collections::BTreeMap, fs, path::PathBuf};

use capt_kinds::sandbox::{ForkSpec, Sandbox};
use pretty_assertions::{assert_eq, assert_ne};
use sandbox::fork::{ForkAddress, ForkRequest, ForkedDeployment, build_fork, source_hash, template_hash};
use serde_json::{Value, json};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn cases() -> Vec<(String, Value)> {
    let mut cases: Vec<_> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap())
        })
        .collect();
    cases.sort_by(|one, other| one.0.cmp(&other.0));
    cases
}

fn sandbox(case: &Value) -> Sandbox {
    let mut sandbox = json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": "pr-1234", "namespace": "shop", "uid": "11111111-2222-3333-4444-555555555555"},
        "spec": {"forks": [case["fork"]]}
    });
    if let Some(cluster) = case["clusterRef"].as_str() {
        sandbox["spec"]["clusterRef"] = json!({"name": cluster});
    }
    serde_json::from_value(sandbox).unwrap()
}

fn made(case: &Value) -> ForkedDeployment {
    let sandbox = sandbox(case);
    let spec: &ForkSpec = &sandbox.spec.forks[0];
    let labels: BTreeMap<String, String> = serde_json::from_value(case["labels"].clone()).unwrap_or_default();
    let address = ForkAddress { host: "cart-pr-1234-aaaa.shop.svc".to_owned(), port: 80 };
    let hash = source_hash(&case["baseline"], &sandbox, spec, "k3v9q0d1m2xza");
    let order = ForkRequest {
        sandbox: &sandbox,
        fork: spec,
        key: "k3v9q0d1m2xza",
        route_server: Some("http://sandbox-router.shop.svc:8079"),
        addresses: &BTreeMap::from([("cart".to_owned(), address)]),
        extra_labels: &labels,
        source_hash: &hash,
    };
    build_fork(&case["baseline"], &order).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the switch that turns this test into the writer")]
fn is_writing() -> bool {
    std::env::var_os("CAPT_WRITE_GOLDENS").is_some()
}

#[test]
fn f7_every_fork_of_the_corpus_is_as_it_was() {
    let cases = cases();
    assert!(cases.len() >= 30, "the corpus has {} cases", cases.len());
    for (name, case) in &cases {
        let made = made(case);
        let text = format!(
            "{}\n",
            serde_json::to_string_pretty(&json!({"fork": made.object, "notes": made.notes})).unwrap()
        );
        let path = corpus().join("golden").join(format!("{name}.json"));
        if is_writing() {
            fs::create_dir_all(corpus().join("golden")).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(golden, text, "{name}");
    }
}

/// A workload without what a fork may change. What is left must be the same in both.
fn without_edits(workload: &Value, case: &Value) -> Value {
    let mut spec = workload["spec"].clone();
    let fields = spec.as_object_mut().unwrap();
    for edited in ["replicas", "strategy", "revisionHistoryLimit", "selector", "paused"] {
        fields.remove(edited);
    }
    spec["template"].as_object_mut().unwrap().remove("metadata");
    let custom = &case["fork"]["customizations"];
    for list in ["containers", "initContainers"] {
        for container in spec["template"]["spec"][list].as_array_mut().into_iter().flatten() {
            let container = container.as_object_mut().unwrap();
            container.remove("env");
            // Entries that an apply refuses are one in the fork; the golden files show them.
            container.remove("ports");
            for (field, edit) in [("image", "images"), ("resources", "resources")] {
                if !custom[edit].is_null() {
                    container.remove(field);
                }
            }
        }
    }
    spec["template"]["spec"]
        .as_object_mut()
        .unwrap()
        .retain(|name, value| name != "initContainers" || !value.is_null());
    spec
}

#[test]
fn f7_a_fork_without_the_documented_edits_is_its_baseline() {
    for (name, case) in cases() {
        let fork = made(&case).object;
        assert_eq!(without_edits(&fork, &case), without_edits(&case["baseline"], &case), "{name}");
    }
}

#[test]
fn a_fork_shares_no_selector_and_no_label_that_nobody_kept() {
    for (name, case) in cases() {
        let made = made(&case);
        let selector = &made.object["spec"]["selector"]["matchLabels"];
        assert_eq!(selector, &json!({"sandbox.capt.x-k8s.io/fork": made.name}), "{name}");
        let labels = &made.object["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["sandbox.capt.x-k8s.io/fork"], json!(made.name), "{name}");
        let kept = case["fork"]["customizations"]["preservedLabels"].as_array().map_or(0, Vec::len);
        if kept == 0 && case["labels"].is_null() {
            let theirs =
                labels.as_object().unwrap().keys().filter(|it| !it.starts_with("sandbox.capt.x-k8s.io/"));
            assert_eq!(theirs.count(), 0, "{name}");
        }
        assert!(made.name.len() <= 52 && !made.name.contains('.'), "{name}: {}", made.name);
    }
}

#[test]
fn no_mark_of_a_deployment_tool_is_left() {
    for (name, case) in cases() {
        let text = made(&case).object.to_string();
        for mark in [
            "argocd.argoproj.io/",
            "meta.helm.sh/",
            "toolkit.fluxcd.io/",
            "app.kubernetes.io/instance",
            "last-applied",
            "deployment.kubernetes.io/revision",
            "managedFields",
            "resourceVersion",
            "uid-of-",
            "\"status\"",
        ] {
            assert!(!text.contains(mark), "{name} has {mark}");
        }
    }
}

#[test]
fn the_same_baseline_gives_the_same_fork() {
    for (name, case) in cases() {
        assert_eq!(made(&case).object.to_string(), made(&case).object.to_string(), "{name}");
    }
}

#[test]
fn f6_autoscalers_and_rollouts_do_not_change_the_digest_and_everything_else_does() {
    let (_, case) = cases().into_iter().next().unwrap();
    let sandbox = sandbox(&case);
    let hash = |baseline: &Value| source_hash(baseline, &sandbox, &sandbox.spec.forks[0], "key");
    let baseline = &case["baseline"];
    let with = |at: &str, value: Value| {
        let mut other = baseline.clone();
        let (parent, field) = at.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[field] = value;
        other
    };
    for same in [
        with("/spec/replicas", json!(50)),
        with("/status/readyReplicas", json!(0)),
        with("/metadata/resourceVersion", json!("4712")),
        with("/metadata/annotations/deployment.kubernetes.io~1revision", json!("8")),
        with("/spec/paused", json!(true)),
    ] {
        assert_eq!(hash(&same), hash(baseline));
        assert_eq!(template_hash(&same), template_hash(baseline));
    }
    for other in [
        with("/spec/template/spec/containers/0/image", json!("repo/cart:2")),
        with("/spec/template/metadata/annotations", json!({"kubectl.kubernetes.io/restartedAt": "now"})),
        with("/spec/minReadySeconds", json!(5)),
    ] {
        assert_ne!(hash(&other), hash(baseline));
        assert_ne!(template_hash(&other), template_hash(baseline));
    }
    assert_ne!(source_hash(baseline, &sandbox, &sandbox.spec.forks[0], "other"), hash(baseline));
}
