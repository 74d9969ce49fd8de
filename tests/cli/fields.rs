//! Fields that are missing, unknown, of the wrong type, or say what cannot be.

use super::harness::{CliHarness, assert_refused_until_corrected, quickstart_with};

const CLUSTER: &str = "CAPTCluster default/demo";
const CONTROL_PLANE: &str = "CAPTControlPlane default/demo";

#[track_caller]
fn assert_refused(old: &str, new: &str, texts: &[&str]) {
    assert_refused_until_corrected(quickstart_with(old, new), texts);
}

#[test]
fn a_missing_field_is_named() {
    assert_refused(
        "  region: eu-central-1\n",
        "",
        &["line 17", CLUSTER, "spec.region", "is missing", "add it"],
    );
}

#[test]
fn an_unknown_field_is_named_with_the_known_ones() {
    assert_refused(
        "    cidr: 10",
        "    cdir: x\n    cidr: 10",
        &[
            CLUSTER,
            "spec.vpcConfig.cdir: unknown field",
            "correct or remove it",
            "valid fields here",
            "natGateways",
        ],
    );
}

#[test]
fn a_text_where_a_number_belongs_is_said_in_words_for_people() {
    assert_refused(
        "availabilityZoneCount: 2",
        "availabilityZoneCount: two",
        &[
            CLUSTER,
            "spec.vpcConfig.availabilityZoneCount",
            "\"two\"",
            "expected a whole number",
            "correct it",
        ],
    );
}

#[test]
fn a_number_where_a_text_belongs_wants_quotes() {
    assert_refused(
        "environment: demo",
        "environment: 5",
        &[CONTROL_PLANE, "spec.additionalTags.environment", "expected a string", "put the value in quotes"],
    );
}

#[test]
fn a_list_where_a_text_belongs_does_not_want_quotes() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", quickstart_with("region: eu-central-1", "region: [eu-central-1]"));
    let said = ground.render().assert_refused(&[
        "demo.yaml",
        CLUSTER,
        "spec.region",
        "sequence",
        "expected a string",
    ]);
    assert!(!said.stderr.contains("quotes"), "{said:?}");
}

#[test]
fn a_word_that_is_none_of_the_choices_is_shown_the_choices() {
    assert_refused(
        "natGateways: Single",
        "natGateways: Many",
        &[CLUSTER, "spec.vpcConfig.natGateways", "`Many`", "`None`, `Single`, `PerAZ`"],
    );
}

#[test]
fn a_text_where_yes_or_no_belongs_is_refused() {
    assert_refused(
        "private: true",
        "private: 'yes'",
        &[CONTROL_PLANE, "spec.controlPlaneConfig.endpointAccess.private", "expected a boolean"],
    );
}

#[test]
fn a_cidr_that_is_none_is_refused() {
    let path = "spec.vpcConfig.cidr";
    for text in ["10.20.0.0", "10.20.0.0/33", "300.0.0.0/16", "fd00::/16", "ten"] {
        assert_refused(
            "cidr: 10.20.0.0/16",
            &format!("cidr: '{text}'"),
            &[CLUSTER, path, text, "is not an IPv4 network", "such as 10.0.0.0/16"],
        );
    }
}

#[test]
fn a_cidr_with_host_bits_or_of_the_wrong_size_is_refused() {
    let path = "spec.vpcConfig.cidr";
    assert_refused(
        "10.20.0.0/16",
        "10.20.0.1/16",
        &[CLUSTER, path, "beyond the prefix", "set those bits to zero"],
    );
    assert_refused(
        "10.20.0.0/16",
        "10.20.0.0/28",
        &[CLUSTER, path, "is not from /16 to /24", "such as 10.0.0.0/16"],
    );
}

#[test]
fn a_reference_that_leads_nowhere_is_refused() {
    assert_refused(
        "kind: CAPTCluster\n    name: demo",
        "kind: CAPTCluster\n    name: other",
        &[
            "Cluster default/demo",
            "spec.infrastructureRef",
            "default/other is not in the manifests",
            "add it",
        ],
    );
}

#[test]
fn all_problems_are_said_at_once() {
    let ground = CliHarness::new();
    let text = quickstart_with("10.20.0.0/16", "ten")
        .replace("v1.33.0", "latest")
        .replace("name: apps", "name: eks-apps");
    ground.write("demo.yaml", text);
    let problems = ground.render().problems();
    let fields = ["spec.vpcConfig.cidr", "spec.version", "spec.additionalFargateProfiles[0].name"];
    assert_eq!(problems.len(), fields.len(), "{problems:#?}");
    for (problem, field) in problems.iter().zip(fields) {
        assert!(problem.starts_with("demo.yaml: ") && problem.contains(field), "{problem}");
    }
}
