//! Verdicts on objects, and on what several of them say together.

use super::*;
use crate::model::{fargate::ValidatedProfile, network::NetworkSource};

#[test]
fn two_documents_of_one_cluster_become_one_unit() {
    let valid = verdict(&format!("{NETWORK}---{CONTROL_PLANE}")).unwrap();
    let [unit] = valid.clusters.as_slice() else { panic!("{:?}", valid.clusters) };
    assert_eq!(unit.key.to_string(), "default/harbour");
    assert_eq!(unit.eks_name.as_str(), "harbour");
    assert_eq!(unit.region.as_str(), "eu-central-1");
    let network = &unit.network.as_ref().unwrap().valid;
    assert!(matches!(&network.source, NetworkSource::BuiltIn(vpc) if vpc.cidr.to_string() == "10.0.0.0/16"));
    let control_plane = &unit.control_plane.as_ref().unwrap().valid;
    assert_eq!(control_plane.version.to_string(), "1.33");
    let names: Vec<_> =
        control_plane.profiles.iter().map(|ValidatedProfile { name, .. }| name.as_str()).collect();
    assert_eq!(names, ["apps"]);
}

#[test]
fn a_cluster_object_pairs_by_reference_and_not_by_name() {
    for (version, reference) in [("v1beta1", "apiVersion: X/v1beta1"), ("v1beta2", "apiGroup: X")] {
        let infra = reference.replace('X', "infrastructure.cluster.x-k8s.io");
        let control = reference.replace('X', "controlplane.cluster.x-k8s.io");
        let text = format!(
            "
apiVersion: cluster.x-k8s.io/{version}
kind: Cluster
metadata: {{name: ferry, namespace: ports, labels: {{env: dev}}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}}}
  infrastructureRef: {{{infra}, kind: CAPTCluster, name: ferry-x7k2}}
  controlPlaneRef: {{{control}, kind: CAPTControlPlane, name: ferry-p9q1}}
---{}---{}",
            NETWORK.replace("name: harbour", "name: ferry-x7k2, namespace: ports"),
            CONTROL_PLANE.replace("name: harbour", "name: ferry-p9q1, namespace: ports")
        );
        let valid = verdict(&text).unwrap();
        let [unit] = valid.clusters.as_slice() else { panic!("{:?}", valid.clusters) };
        assert_eq!((unit.key.to_string().as_str(), unit.eks_name.as_str()), ("ports/ferry", "ferry"));
        assert_eq!(unit.network.as_ref().unwrap().key.name.as_str(), "ferry-x7k2");
        assert_eq!(unit.control_plane.as_ref().unwrap().key.name.as_str(), "ferry-p9q1");
    }
}

#[test]
fn the_cluster_name_label_pairs_objects_of_different_names() {
    let label = "labels: {cluster.x-k8s.io/cluster-name: lighthouse}";
    let text = format!(
        "{}---{}",
        NETWORK.replace("name: harbour", &format!("name: net, {label}")),
        CONTROL_PLANE.replace("name: harbour", &format!("name: cp, {label}"))
    );
    let valid = verdict(&text).unwrap();
    assert_eq!(valid.clusters.len(), 1);
    assert_eq!(valid.clusters[0].eks_name.as_str(), "lighthouse");
}

#[test]
fn a_reference_to_an_object_that_is_not_there_is_named() {
    let text = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: ferry}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: nowhere}
";
    assert_eq!(
        verdict(text).unwrap_err(),
        [
            "x.yaml: Cluster default/ferry: spec.infrastructureRef: CAPTCluster default/nowhere is not in the manifests; \
          add it, or correct the reference"
        ]
    );
}

#[test]
fn all_problems_of_all_objects_are_reported_at_once() {
    let text = format!(
        "{}---{}",
        NETWORK.replace("eu-central-1", "Frankfurt"),
        CONTROL_PLANE
            .replace("v1.33.0", "latest")
            .replace("[{namespace: 'team-*', labels: {tier: web}}]", "[]")
            .replace("name: apps", "name: eks-apps")
    );
    assert_eq!(
        verdict(&text).unwrap_err(),
        [
            "x.yaml: CAPTCluster default/harbour: spec.region: \"Frankfurt\" is not an AWS region; \
             write one such as eu-central-1 or us-gov-west-1",
            "x.yaml: CAPTControlPlane default/harbour: spec.version: \"latest\" is not a Kubernetes version; \
             write one such as v1.33.0 or \"1.33\"; EKS does not support \"latest\"",
            "x.yaml: CAPTControlPlane default/harbour: spec.additionalFargateProfiles[0].name: \"eks-apps\" is not a name \
             for a Fargate profile; use 1 to 100 letters, digits, '-' and '_', start with a letter or digit, and not with \
             eks-, which AWS reserves",
            "x.yaml: CAPTControlPlane default/harbour: spec.additionalFargateProfiles[0].selectors: must have at least one \
             selector; add one, such as a namespace",
        ]
    );
}

#[test]
fn a_quota_is_a_setting_and_the_message_names_it() {
    let selectors = |count: usize| {
        let list: Vec<_> = (0..count).map(|index| format!("{{namespace: ns-{index}}}")).collect();
        CONTROL_PLANE.replace("{namespace: 'team-*', labels: {tier: web}}", &list.join(", "))
    };
    assert!(verdict(&format!("{NETWORK}---{}", selectors(5))).is_ok());
    let text = format!("{NETWORK}---{}", selectors(6));
    let errors = verdict(&text).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("selectors: has 6 selectors, but the limit is 5"), "{errors:?}");
    assert!(errors[0].contains(Limits::SELECTORS_SETTING), "{errors:?}");
    let manifests = load(&[source("x.yaml", &text)]).unwrap();
    let raised = Limits { selectors_per_profile: 6, ..Limits::default() };
    assert!(validate(&manifests, &raised).is_ok());
}

#[test]
fn the_clusters_own_profile_counts_against_the_quota() {
    let profiles = |count: usize, more: &str| {
        let list: Vec<_> = (0..count)
            .map(|index| format!("{{name: p{index}, selectors: [{{namespace: n{index}}}]}}"))
            .collect();
        format!(
            "{NETWORK}---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {{name: harbour}}
spec: {{version: '1.33', additionalFargateProfiles: [{}]{more}}}
",
            list.join(", ")
        )
    };
    assert!(verdict(&profiles(9, "")).is_ok());
    assert!(
        verdict(&profiles(10, "")).unwrap_err()[0]
            .contains("11 Fargate profiles including the system profile")
    );
    assert!(verdict(&profiles(10, ", controlPlaneConfig: {systemFargateProfile: false}")).is_ok());
}

#[test]
fn profiles_that_want_the_same_pods_are_a_warning() {
    let text =
        format!("{NETWORK}---{CONTROL_PLANE}  - {{name: batch, selectors: [{{namespace: team-blue}}]}}\n");
    let warnings: Vec<_> = verdict(&text).unwrap().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "x.yaml: line 7: CAPTControlPlane default/harbour: Fargate profiles apps and batch both match pods in namespace \
          team-blue; EKS uses apps, the first by name"
        ]
    );
}

#[test]
fn what_two_objects_say_must_agree() {
    let with = |config: &str| format!("{NETWORK}---{CONTROL_PLANE}  controlPlaneConfig: {config}\n");
    let errors = verdict(&with("{region: eu-west-1}")).unwrap_err();
    assert!(
        errors[0]
            .contains("spec.controlPlaneConfig.region: is eu-west-1, but the CAPTCluster is in eu-central-1")
    );
    let errors = verdict(&with("{serviceIpv4Cidr: 10.0.16.0/20}")).unwrap_err();
    assert!(errors[0].contains("10.0.16.0/20 overlaps the VPC's 10.0.0.0/16"), "{errors:?}");
    let errors = verdict(CONTROL_PLANE).unwrap_err();
    assert!(errors[0].contains("this control plane has no CAPTCluster"), "{errors:?}");

    let other = NETWORK.replace("name: harbour", "name: pier");
    let second = CONTROL_PLANE.replace("name: harbour", "name: pier");
    let same = format!("{NETWORK}---{CONTROL_PLANE}---{other}---{second}  eksClusterName: harbour\n");
    assert!(
        verdict(&same).unwrap_err()[0].contains("harbour is also the EKS name of cluster default/harbour")
    );
}

#[test]
fn a_template_that_is_not_in_the_files_is_named() {
    let text =
        NETWORK.replace("region: eu-central-1", "region: eu-central-1, vpcTemplateRef: {name: vpc-template}");
    assert_eq!(
        verdict(&text).unwrap_err(),
        [
            "x.yaml: CAPTCluster default/harbour: spec.vpcTemplateRef: WorkspaceTemplate default/vpc-template is not in the \
            manifests; add it"
        ]
    );
}
