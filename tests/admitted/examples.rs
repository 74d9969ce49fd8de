//! The examples: each is self-contained, and results in the expected workspaces.

use std::fs;

use capt_model::{
    manifest::{self, ManifestSource},
    model::Limits,
    workspaces::desired_workspaces,
};

use super::server::{apply, is_preserved, parse_objects, repository_root, start_server};

/// Every example, and its workspaces.
const EXAMPLES: [(&str, &[&str]); 7] = [
    ("existing-vpc.yaml", &["existing-vpc", "existing-eks-controlplane", "existing-apps-fargate"]),
    (
        "many-profiles.yaml",
        &[
            "many-vpc",
            "many-eks-controlplane",
            "many-apps-fargate",
            "many-data-fargate",
            "many-previews-fargate",
            "many-batch-fargate",
            "many-teams-fargate",
            "many-ingress-fargate",
            "many-monitoring-fargate",
            "many-ci-fargate",
        ],
    ),
    ("network.yaml", &["shared-network"]),
    ("quickstart.yaml", &["demo-vpc", "demo-eks-controlplane", "demo-apps-fargate", "demo-jobs-fargate"]),
    ("template-driven.yaml", &["templated-vpc", "templated-eks-controlplane", "templated-apps-fargate"]),
    ("templates.yaml", &["network", "service"]),
    (
        "two-clusters.yaml",
        &[
            "blue-vpc",
            "blue-eks-controlplane",
            "blue-apps-fargate",
            "green-vpc",
            "green-eks-controlplane",
            "green-apps-fargate",
        ],
    ),
];

fn read_example(example: &str) -> String {
    fs::read_to_string(repository_root().join("examples").join(example)).unwrap()
}

#[test]
fn every_example_is_in_the_list() {
    // A directory is a tour of its own, with its own test.
    let mut found: Vec<String> = fs::read_dir(repository_root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, EXAMPLES.map(|(name, _)| name));
}

#[test]
fn each_becomes_its_workspaces_without_a_word_of_warning() {
    for (name, expected) in EXAMPLES {
        let loaded =
            manifest::load(&[ManifestSource { name: name.to_owned(), text: read_example(name) }]).unwrap();
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
        let valid = manifest::validate(&loaded, &Limits::default()).unwrap();
        assert!(valid.warnings.is_empty(), "{name}: {:?}", valid.warnings);
        let found: Vec<String> =
            desired_workspaces(&valid).unwrap().iter().map(|it| it.key.to_string()).collect();
        assert_eq!(found, expected.iter().map(|it| format!("default/{it}")).collect::<Vec<_>>(), "{name}");
    }
}

#[tokio::test]
async fn each_is_admitted_and_kept_whole() {
    let kube = start_server().await;
    for (name, _) in EXAMPLES {
        for object in parse_objects(&read_example(name)) {
            let title = format!("{name}: {} {}", object["kind"], object["metadata"]["name"]);
            let kept =
                apply(&kube.client(), &object).await.unwrap_or_else(|error| panic!("{title}: {error}"));
            assert!(is_preserved(&object["spec"], &kept["spec"]), "{title}: {kept:#}");
        }
    }
}

#[test]
fn all_examples_can_be_used_side_by_side() {
    let sources =
        EXAMPLES.map(|(name, _)| ManifestSource { name: name.to_owned(), text: read_example(name) });
    let loaded = manifest::load(&sources).unwrap();
    manifest::validate(&loaded, &Limits::default()).unwrap();
}
