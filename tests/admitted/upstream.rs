//! What the users of upstream have written keeps working: every fixture is taken by an API server with our CRDs, with no
//! field refused or dropped, and by the command line.

use std::fs;

use capt_model::{
    manifest::{self, ManifestSource},
    model::Limits,
    workspaces::desired_workspaces,
};
use serde_json::json;

use super::server::{apply, is_preserved, parse_objects, repository_root, start_server};

/// The version that only Cluster API serves.
const FOREIGN: &str = "cluster-v1beta1.yaml";
/// Admitted, though nothing can be made of them; the controllers say what is missing.
const EMPTY: &str = "without-spec.yaml";

/// Names and texts of the fixtures.
fn fixtures() -> Vec<(String, String)> {
    let directory = fs::read_dir(repository_root().join("tests/fixtures/upstream")).unwrap();
    let paths = directory.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    assert!(found.len() >= 10, "{found:?}");
    found
}

#[tokio::test]
async fn every_fixture_is_admitted_and_kept_whole() {
    let kube = start_server().await;
    for (file, text) in fixtures().into_iter().filter(|(file, _)| file != FOREIGN) {
        for object in parse_objects(&text) {
            let title = format!("{file}: {} {}", object["kind"], object["metadata"]["name"]);
            let kept =
                apply(&kube.client(), &object).await.unwrap_or_else(|error| panic!("{title}: {error}"));
            let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
            let empty = json!({});
            assert!(is_preserved(&spec, kept.get("spec").unwrap_or(&empty)), "{title}: {kept:#}");
        }
    }
}

#[tokio::test]
async fn a_field_that_nobody_knows_is_refused_by_name() {
    let kube = start_server().await;
    let (_, text) = fixtures().into_iter().find(|(file, _)| file == "demo-cluster.yaml").unwrap();
    let mut object = parse_objects(&text).into_iter().find(|it| it["kind"] == "CAPTControlPlane").unwrap();
    object["spec"]["controlPlaneConfig"]["fargateProfiles"] = json!([]);
    let error = apply(&kube.client(), &object).await.unwrap_err().to_string();
    assert!(error.contains("fargateProfiles"), "{error}");
}

#[test]
fn the_command_line_reads_every_fixture() {
    for (name, text) in fixtures() {
        let loaded = manifest::load(&[ManifestSource { name: name.clone(), text }]);
        loaded.unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    }
}

#[test]
fn each_cluster_becomes_workspaces_under_the_names_of_upstream() {
    let all = fixtures();
    let texts = |files: &[&str]| -> Vec<ManifestSource> {
        let chosen = all.iter().filter(|(name, _)| files.contains(&name.as_str()));
        chosen.map(|(name, text)| ManifestSource { name: name.clone(), text: text.clone() }).collect()
    };
    for (file, cluster) in [
        ("demo-cluster.yaml", "demo-cluster"),
        ("demo-cluster6.yaml", "demo-cluster6"),
        ("demo-with-helm.yaml", "demo-with-helm"),
        ("vpc-retained.yaml", "vpc-retained"),
    ] {
        let sources = texts(&["vpc-template.yaml", "eks-controlplane-template.yaml", file]);
        assert_eq!(sources.len(), 3);
        let loaded = manifest::load(&sources).unwrap();
        let valid = manifest::validate(&loaded, &Limits::default())
            .unwrap_or_else(|errors| panic!("{file}: {errors:?}"));
        let names: Vec<String> =
            desired_workspaces(&valid).unwrap().iter().map(|it| it.key.to_string()).collect();
        assert_eq!(names, [format!("default/{cluster}-vpc"), format!("default/{cluster}-eks-controlplane")]);
    }
}

#[test]
fn an_object_without_a_spec_is_told_what_is_missing() {
    let (name, text) = fixtures().into_iter().find(|(file, _)| file == EMPTY).unwrap();
    let loaded = manifest::load(&[ManifestSource { name, text }]).unwrap();
    let errors = manifest::validate(&loaded, &Limits::default()).unwrap_err();
    let said = format!("{errors:?}");
    for needed in ["region", "version", "templateRef"] {
        assert!(said.contains(needed), "{needed}: {said}");
    }
}
