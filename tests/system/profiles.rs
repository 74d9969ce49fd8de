//! Many Fargate profiles in one cluster, which allows one change at a time.

use std::fmt::Write;

use super::harness::SystemHarness;

fn manifest(profiles: usize, first_namespace: &str) -> String {
    let mut text = "\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: many}
spec:
  region: eu-central-1
  vpcConfig: {availabilityZoneCount: 2, natGateways: None}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {name: many}
spec:
  version: \"1.33\"
  controlPlaneConfig: {systemFargateProfile: false, encryption: {enabled: false}}
  additionalFargateProfiles:
"
    .to_owned();
    for number in 0..profiles {
        let namespace = if number == 0 { first_namespace.to_owned() } else { format!("team-{number}") };
        writeln!(text, "    - {{name: profile-{number}, selectors: [{{namespace: {namespace}}}]}}").unwrap();
    }
    text
}

#[test]
fn ten_profiles_come_and_go_without_a_collision_and_a_changed_one_is_rotated() {
    let capt = SystemHarness::new();
    let file = capt.write_file("many.yaml", &manifest(10, "team-0")).display().to_string();
    let applied = capt.run(&["apply", &file, "-o", "json"]).expect_success();
    assert_eq!(applied.results().len(), 12);
    assert!(!applied.stderr.contains("retrying"), "{}", applied.stderr);
    assert_eq!(capt.count_resources("eks fargate-profile"), 10);
    let created = capt.calls_of_operation("CreateFargateProfile");
    assert_eq!(created.len(), 10, "one call for each profile, none refused: {created:?}");

    // One profile goes, so that there is room for the rotation of another.
    capt.write_file("many.yaml", &manifest(9, "elsewhere"));
    let changed = capt.run(&["apply", &file, "-o", "json"]).expect_success();
    assert!(
        changed.stderr.contains("default/many-profile-9-fargate is no longer in the manifests"),
        "{}",
        changed.stderr
    );
    assert_eq!(capt.count_resources("eks fargate-profile"), 9);
    let names: Vec<String> = capt
        .calls_of_operation("CreateFargateProfile")
        .iter()
        .skip(10)
        .map(|call| call["resource"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(names.len(), 1, "the rotation makes one new profile: {names:?}");

    let destroyed = capt.run(&["destroy", &file, "-o", "json"]).expect_success();
    assert!(!destroyed.stderr.contains("retrying"), "{}", destroyed.stderr);
    assert!(destroyed.stderr.contains("no resources are left"), "{}", destroyed.stderr);
}
