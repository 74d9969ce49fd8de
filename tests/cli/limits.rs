//! What EKS and Fargate allow: profiles, selectors, versions, regions.

use serde_json::Value;

use super::harness::{CliHarness, assert_refused_until_corrected, quickstart_with};

const PROFILES: &str = "spec.additionalFargateProfiles";
const APPS: &str = "      selectors:\n        - namespace: apps\n";

#[track_caller]
fn assert_refused(old: &str, new: &str, texts: &[&str]) {
    let object = ["CAPTControlPlane default/demo"];
    assert_refused_until_corrected(quickstart_with(old, new), &[&object, texts].concat());
}

fn selectors(count: usize) -> String {
    let lines: Vec<String> = (1..=count).map(|it| format!("        - namespace: team-{it}\n")).collect();
    format!("      selectors:\n{}", lines.concat())
}

fn read_variables(ground: &CliHarness, workspace: &str) -> Value {
    serde_json::from_str(&ground.read(&format!("out/default/{workspace}/terraform.tfvars.json"))).unwrap()
}

#[test]
fn a_profile_without_selectors_is_refused() {
    let path = format!("{PROFILES}[0].selectors");
    assert_refused(
        APPS,
        "      selectors: []\n",
        &[&path, "at least one selector", "add one, such as a namespace"],
    );
}

#[test]
fn a_profile_that_does_not_speak_of_selectors_is_refused() {
    assert_refused(APPS, "", &[&format!("{PROFILES}[0].selectors"), "selector"]);
}

#[test]
fn six_selectors_are_one_too_many() {
    let six = selectors(6);
    assert_refused(
        APPS,
        &six,
        &[&format!("{PROFILES}[0].selectors"), "has 6 selectors", "the limit is 5", "split the profile"],
    );
}

#[test]
fn five_selectors_are_not_too_many() {
    let five = selectors(5);
    let ground = CliHarness::new();
    ground.write("demo.yaml", quickstart_with(APPS, &five));
    ground.render().assert_success();
    assert_eq!(read_variables(&ground, "demo-apps-fargate")["selectors"].as_array().map(Vec::len), Some(5));
}

#[test]
fn characters_of_regular_expressions_are_no_wildcards() {
    for namespace in ["jobs-[a-z]+", "jobs.*", "^jobs", "jobs|apps", "jobs-", "Jobs-*"] {
        assert_refused(
            "namespace: jobs-*",
            &format!("namespace: '{namespace}'"),
            &[&format!("{PROFILES}[1].selectors[0].namespace"), namespace, "the wildcards '*' and '?'"],
        );
    }
}

#[test]
fn a_wildcard_in_the_name_of_a_profile_is_refused() {
    assert_refused(
        "name: apps",
        "name: 'apps-*'",
        &[&format!("{PROFILES}[0].name"), "\"apps-*\"", "use 1 to 100 letters"],
    );
}

#[test]
fn a_label_with_characters_that_eks_does_not_know_is_refused() {
    assert_refused(
        "compute: fargate",
        "compute: 'far(gate|cry)'",
        &[&format!("{PROFILES}[1].selectors[0].labels"), "far(gate|cry)", "the wildcards '*' and '?'"],
    );
}

#[test]
fn a_wildcard_where_eks_takes_one_is_accepted() {
    let ground = CliHarness::new();
    let text = quickstart_with("namespace: jobs-*", "namespace: '*-jobs-?'")
        .replace("compute: fargate", "compute: f*");
    ground.write("demo.yaml", text);
    ground.render().assert_success();
    let selector = &read_variables(&ground, "demo-jobs-fargate")["selectors"][0];
    assert_eq!(selector["namespace"], "*-jobs-?");
    assert_eq!(selector["labels"]["capt.x-k8s.io/compute"], "f*");
}

#[test]
fn a_name_that_starts_with_eks_is_refused() {
    assert_refused(
        "name: apps",
        "name: eks-apps",
        &[&format!("{PROFILES}[0].name"), "\"eks-apps\"", "not with eks-, which AWS reserves"],
    );
}

#[test]
fn the_name_of_the_clusters_own_profile_is_taken() {
    assert_refused(
        "name: apps",
        "name: system",
        &[&format!("{PROFILES}[0].name"), "reserved for the system profile", "choose another"],
    );
}

#[test]
fn every_spelling_of_a_version_means_the_minor_version() {
    for version in ["v1.33.0", "'1.33'", "1.33.2"] {
        let ground = CliHarness::new();
        ground.write("demo.yaml", quickstart_with("v1.33.0", version));
        ground.render().assert_success();
        assert_eq!(
            read_variables(&ground, "demo-eks-controlplane")["kubernetes_version"],
            "1.33",
            "{version}"
        );
    }
}

/// `1.30` would be read as 1.3, so no number is taken for a version.
#[test]
fn a_version_without_quotes_that_is_a_number_is_told_to_put_them() {
    assert_refused("v1.33.0", "1.33", &["spec.version", "`1.33`", "put the value in quotes"]);
}

#[test]
fn latest_is_no_version() {
    assert_refused("v1.33.0", "latest", &["spec.version", "\"latest\"", "write one such as v1.33.0"]);
}

#[test]
fn regions_of_the_gov_and_iso_partitions_are_accepted() {
    for region in ["us-gov-west-1", "us-iso-east-1"] {
        let ground = CliHarness::new();
        ground.write("demo.yaml", quickstart_with("eu-central-1", region));
        ground.render().assert_success();
        let provider = ground.read("out/default/demo-vpc/capt_provider.tf.json");
        let provider: Value = serde_json::from_str(&provider).unwrap();
        assert_eq!(provider["provider"]["aws"]["region"], region);
    }
}

#[test]
fn what_is_no_region_is_refused() {
    assert_refused_until_corrected(
        quickstart_with("eu-central-1", "frankfurt"),
        &["CAPTCluster default/demo", "spec.region", "\"frankfurt\" is not an AWS region", "eu-central-1"],
    );
}
