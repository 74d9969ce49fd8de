use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::{CLUSTER_ROLE, POD_ROLE, TestAccount, profile_request, with};
use crate::eks::state::{HealthIssue, PlannedOutcome, ProfileStatus};

const PROFILES: &str = "/clusters/demo/fargate-profiles";

#[test]
fn a_profile_is_created_and_deleted_in_its_time() {
    let mut account = TestAccount::with_cluster();
    account.ok("POST", PROFILES, profile_request("one"));
    account.pass(999);
    assert_eq!(account.status(&format!("{PROFILES}/one")), "CREATING");
    account.pass(1);
    assert_eq!(account.status(&format!("{PROFILES}/one")), "ACTIVE");
    account.ok("DELETE", &format!("{PROFILES}/one"), json!({}));
    assert_eq!(account.status(&format!("{PROFILES}/one")), "DELETING");
    account.pass(1000);
    let refused = account.refused("GET", &format!("{PROFILES}/one"), json!({}));
    assert_eq!(refused, ("ResourceNotFoundException", "No Fargate Profile found with name: one.".to_owned()));
}

#[test]
fn one_fargate_mutation_runs_at_a_time() {
    let mut account = TestAccount::with_profile();
    account.ok("POST", PROFILES, profile_request("two"));
    let (code, message) = account.refused("POST", PROFILES, profile_request("three"));
    assert_eq!(code, "ResourceInUseException");
    assert_eq!(
        message,
        "Cannot create Fargate Profile three because cluster demo currently has Fargate profile two in status CREATING"
    );
    let (_, message) = account.refused("DELETE", &format!("{PROFILES}/one"), json!({}));
    assert_eq!(
        message,
        "Cannot Delete Fargate Profile one because cluster demo currently has Fargate profile two in status CREATING"
    );
    account.pass(1000);
    account.ok("DELETE", &format!("{PROFILES}/one"), json!({}));
    let (_, message) = account.refused("DELETE", &format!("{PROFILES}/two"), json!({}));
    assert_eq!(
        message,
        "Cannot Delete Fargate Profile two because cluster demo currently has Fargate profile one in status DELETING"
    );
}

#[test]
fn an_addon_update_holds_fargate_mutations_but_not_the_cluster() {
    let mut account = TestAccount::with_cluster();
    account.ok("POST", "/clusters/demo/addons", json!({ "addonName": "vpc-cni" }));
    account.pass(500);
    account.ok(
        "POST",
        "/clusters/demo/addons/vpc-cni/update",
        json!({ "addonVersion": "v1.20.5-eksbuild.1" }),
    );
    assert_eq!(account.status("/clusters/demo"), "ACTIVE");
    let (code, message) = account.refused("POST", PROFILES, profile_request("one"));
    assert_eq!(code, "ResourceInUseException");
    assert!(message.ends_with("currently has an update in progress"), "{message}");
    account.pass(500);
    account.ok("POST", PROFILES, profile_request("one"));
}

#[test]
fn a_cluster_that_still_settles_refuses_profiles() {
    let mut account = TestAccount::new();
    account.settings.timing.cluster_settle_ms = 700;
    account.ok("POST", "/clusters", super::cluster_request());
    account.pass(2600);
    assert_eq!(account.status("/clusters/demo"), "ACTIVE");
    assert_eq!(account.refused("POST", PROFILES, profile_request("one")).0, "ResourceInUseException");
    account.pass(100);
    account.ok("POST", PROFILES, profile_request("one"));
}

#[test]
fn a_name_is_taken_once_per_cluster_but_a_retried_request_gets_its_answer() {
    let mut account = TestAccount::with_cluster();
    let request = with(profile_request("one"), json!({ "clientRequestToken": "t-1" }));
    let first = account.ok("POST", PROFILES, request.clone());
    let again = account.ok("POST", PROFILES, request);
    assert_eq!(first["fargateProfile"]["fargateProfileArn"], again["fargateProfile"]["fargateProfileArn"]);
    let refused = account.refused("POST", PROFILES, profile_request("one"));
    let message = "A Fargate Profile already exists with this name in this cluster.";
    assert_eq!(refused, ("ResourceInUseException", message.to_owned()));
}

#[rstest]
#[case::reserved_name(json!({"fargateProfileName": "eks-one"}), "reserved prefix")]
#[case::name_with_a_space(json!({"fargateProfileName": "a b"}), "is not valid")]
#[case::name_too_long(json!({"fargateProfileName": "x".repeat(101)}), "is not valid")]
#[case::no_selectors(json!({"selectors": []}), "Fargate Profile requires at least one selector.")]
#[case::selectors_absent(json!({"selectors": null}), "Fargate Profile requires at least one selector.")]
#[case::six_selectors(json!({"selectors": vec![json!({"namespace": "a"}); 6]}), "more than 5 Selectors")]
#[case::no_namespace(json!({"selectors": [{"labels": {"a": "b"}}]}), "at least one namespace value")]
#[case::six_labels(json!({"selectors": [{"namespace": "a", "labels": {"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1"}}]}), "more than 5 Label pairs")]
#[case::regular_expression(json!({"selectors": [{"namespace": "prod-[ab]"}]}), "invalid namespace")]
#[case::capital_letters(json!({"selectors": [{"namespace": "Prod"}]}), "invalid namespace")]
#[case::label_value(json!({"selectors": [{"namespace": "a", "labels": {"k": "a b"}}]}), "invalid label value")]
#[case::public_subnet(json!({"subnets": ["subnet-pub"]}), "Subnet subnet-pub provided in Fargate Profile is not a private subnet")]
#[case::subnet_of_another_vpc(json!({"subnets": ["subnet-other"]}), "not in the VPC")]
#[case::subnet_that_is_not_there(json!({"subnets": ["subnet-ghost"]}), "'subnet-ghost' does not exist")]
#[case::no_subnets(json!({"subnets": []}), "at least one private subnet")]
#[case::role_of_the_cluster(json!({"podExecutionRoleArn": CLUSTER_ROLE}), "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal to the role's trust policy")]
#[case::role_that_is_not_there(json!({"podExecutionRoleArn": "arn:aws:iam::123456789012:role/ghost"}), "does not exist")]
#[case::role_with_a_path(json!({"podExecutionRoleArn": "arn:aws:iam::123456789012:role/team/pods"}), "path")]
#[case::role_that_is_none(json!({"podExecutionRoleArn": "pods"}), "Invalid pod execution role arn")]
fn a_profile_that_breaks_a_rule_is_refused(#[case] change: Value, #[case] text: &str) {
    let mut account = TestAccount::with_cluster();
    let (code, message) = account.refused("POST", PROFILES, with(profile_request("one"), change));
    assert_eq!(code, "InvalidParameterException");
    assert!(message.contains(text), "{message}");
    assert_eq!(account.get(PROFILES)["fargateProfileNames"], json!([]));
}

#[rstest]
#[case(json!([{"namespace": "*"}]))]
#[case(json!([{"namespace": "prod-?"}, {"namespace": "a", "labels": {"app.kubernetes.io/*": "web-*"}}]))]
fn wildcards_are_accepted_anywhere(#[case] selectors: Value) {
    let mut account = TestAccount::with_cluster();
    let answer =
        account.ok("POST", PROFILES, with(profile_request("one"), json!({ "selectors": selectors })));
    assert_eq!(answer["fargateProfile"]["selectors"][0]["namespace"], selectors[0]["namespace"]);
}

#[test]
fn without_subnets_a_profile_takes_the_private_ones_of_its_cluster() {
    let mut account = TestAccount::new();
    let subnets = json!({ "resourcesVpcConfig": { "subnetIds": ["subnet-a", "subnet-b", "subnet-pub"] } });
    account.ok("POST", "/clusters", with(super::cluster_request(), subnets));
    account.pass(2000);
    let answer = account.ok("POST", PROFILES, with(profile_request("one"), json!({ "subnets": null })));
    assert_eq!(answer["fargateProfile"]["subnets"], json!(["subnet-a", "subnet-b"]));
}

#[test]
fn the_quotas_are_settings() {
    let mut account = TestAccount::with_cluster();
    account.settings.limits.profiles = 1;
    account.settings.limits.selectors = 6;
    let six = json!({ "selectors": vec![json!({ "namespace": "a" }); 6] });
    account.ok("POST", PROFILES, with(profile_request("one"), six));
    account.pass(1000);
    assert_eq!(account.refused("POST", PROFILES, profile_request("two")).0, "ResourceLimitExceededException");
}

#[test]
fn a_profile_can_be_ordered_to_fail_and_is_deleted_afterwards() {
    let mut account = TestAccount::with_cluster();
    let issue =
        HealthIssue { code: "AccessDenied".into(), message: "no".into(), resource_ids: vec!["role".into()] };
    let planned = |end| PlannedOutcome {
        cluster: "demo".into(),
        profile: "one".into(),
        end,
        issues: vec![issue.clone()],
    };
    account.state.planned = vec![planned(ProfileStatus::DeleteFailed), planned(ProfileStatus::CreateFailed)];
    account.ok("POST", PROFILES, profile_request("one"));
    account.pass(1000);
    let failed = account.get(&format!("{PROFILES}/one"));
    assert_eq!(failed["fargateProfile"]["status"], "CREATE_FAILED");
    assert_eq!(failed["fargateProfile"]["health"]["issues"][0]["resourceIds"], json!(["role"]));
    account.ok("POST", PROFILES, profile_request("two"));
    account.pass(1000);
    account.ok("DELETE", &format!("{PROFILES}/one"), json!({}));
    account.pass(1000);
    assert_eq!(account.status(&format!("{PROFILES}/one")), "DELETE_FAILED");
    account.ok("DELETE", &format!("{PROFILES}/one"), json!({}));
    account.pass(1000);
    assert_eq!(account.get(PROFILES)["fargateProfileNames"], json!(["two"]));
}

#[test]
fn a_pod_execution_role_has_an_access_entry_while_a_profile_uses_it() {
    let mut account = TestAccount::with_profile();
    let entry = format!("/clusters/demo/access-entries/{}", POD_ROLE.replace('/', "%2F"));
    assert_eq!(account.get(&entry)["accessEntry"]["type"], "FARGATE_LINUX");
    account.ok("POST", PROFILES, profile_request("two"));
    account.pass(1000);
    account.ok("DELETE", &format!("{PROFILES}/one"), json!({}));
    account.pass(1000);
    account.get(&entry);
    account.ok("DELETE", &format!("{PROFILES}/two"), json!({}));
    account.pass(1000);
    assert_eq!(account.refused("GET", &entry, json!({})).0, "ResourceNotFoundException");
}

#[test]
fn coredns_is_well_only_while_an_active_profile_takes_it() {
    let mut account = TestAccount::with_cluster();
    let dns = "/clusters/demo/addons/coredns";
    let configuration = json!({ "computeType": "Fargate" }).to_string();
    account.ok(
        "POST",
        "/clusters/demo/addons",
        json!({ "addonName": "coredns", "configurationValues": configuration }),
    );
    assert_eq!(account.status(dns), "CREATING");
    account.pass(500);
    let ill = account.get(dns);
    assert_eq!(ill["addon"]["status"], "DEGRADED");
    assert_eq!(ill["addon"]["health"]["issues"][0]["code"], "InsufficientNumberOfReplicas");

    let kube_dns =
        json!({ "selectors": [{ "namespace": "kube-system", "labels": { "k8s-app": "kube-dns" } }] });
    account.ok("POST", PROFILES, profile_request("default"));
    account.pass(1000);
    assert_eq!(account.status(dns), "DEGRADED", "that profile is for another namespace");
    account.ok("POST", PROFILES, with(profile_request("dns"), kube_dns));
    assert_eq!(account.status(dns), "DEGRADED", "the profile is still CREATING");
    account.pass(1000);
    assert_eq!(account.status(dns), "ACTIVE");
    account.ok("DELETE", &format!("{PROFILES}/dns"), json!({}));
    assert_eq!(account.status(dns), "DEGRADED");
}
