use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::{CREATOR, POD_ROLE, TestAccount, cluster_request, profile_request, with};
use crate::eks::{context::Effect, state::UpdateError};

#[test]
fn a_cluster_is_creating_until_its_time_is_over() {
    let mut account = TestAccount::new();
    account.ok("POST", "/clusters", cluster_request());
    account.pass(1999);
    let early = account.get("/clusters/demo");
    assert_eq!(early["cluster"]["status"], "CREATING");
    assert_eq!(early["cluster"]["endpoint"], Value::Null);
    account.pass(1);
    let made = account.get("/clusters/demo");
    assert_eq!(made["cluster"]["status"], "ACTIVE");
    let endpoint = made["cluster"]["endpoint"].as_str().unwrap();
    assert!(
        endpoint.starts_with("https://") && endpoint.ends_with(".gr7.eu-west-1.eks.amazonaws.com"),
        "{endpoint}"
    );
    let issuer = made["cluster"]["identity"]["oidc"]["issuer"].as_str().unwrap();
    let id = issuer.strip_prefix("https://oidc.eks.eu-west-1.amazonaws.com/id/").unwrap();
    assert_eq!(id.len(), 32);
    assert!(endpoint.contains(id));
}

#[test]
fn creating_a_cluster_orders_its_security_group_and_deleting_it_takes_it_away() {
    let mut account = TestAccount::with_cluster();
    assert_eq!(
        account.effects,
        [Effect::CreateClusterSecurityGroup { cluster: "demo".into(), vpc_id: "vpc-1".into() }]
    );
    let cluster = account.state.regions.get_mut("eu-west-1").unwrap().get_mut("demo").unwrap();
    cluster.vpc.cluster_security_group_id = Some("sg-1".into());
    account.effects.clear();
    account.ok("DELETE", "/clusters/demo", json!({}));
    assert_eq!(account.effects, [Effect::DeleteSecurityGroup { id: "sg-1".into() }]);
    assert_eq!(account.status("/clusters/demo"), "DELETING");
    account.pass(1500);
    let (code, message) = account.refused("GET", "/clusters/demo", json!({}));
    assert_eq!((code, message.as_str()), ("ResourceNotFoundException", "No cluster found for name: demo."));
}

#[test]
fn a_name_is_taken_once_but_a_retried_request_gets_its_answer() {
    let mut account = TestAccount::new();
    let request = with(cluster_request(), json!({ "clientRequestToken": "t-1" }));
    let first = account.ok("POST", "/clusters", request.clone());
    let again = account.ok("POST", "/clusters", request);
    assert_eq!(first["cluster"]["arn"], again["cluster"]["arn"]);
    let (code, message) =
        account.refused("POST", "/clusters", with(cluster_request(), json!({ "clientRequestToken": "t-2" })));
    assert_eq!(
        (code, message.as_str()),
        ("ResourceInUseException", "Cluster already exists with name: demo")
    );
}

#[rstest]
#[case::name_with_a_dot(json!({"name": "de.mo"}), "InvalidParameterException", "cluster name")]
#[case::name_starts_with_a_hyphen(json!({"name": "-demo"}), "InvalidParameterException", "cluster name")]
#[case::name_too_long(json!({"name": "x".repeat(101)}), "InvalidParameterException", "cluster name")]
#[case::no_name(json!({"name": null}), "InvalidParameterException", "missing field `name`")]
#[case::version_too_old(json!({"version": "1.29"}), "InvalidParameterException", "unsupported Kubernetes version 1.29")]
#[case::version_with_a_patch(json!({"version": "1.33.2"}), "InvalidParameterException", "unsupported Kubernetes version")]
#[case::role_that_eks_cannot_assume(json!({"roleArn": POD_ROLE}), "InvalidParameterException", "could not be assumed")]
#[case::role_that_is_not_there(json!({"roleArn": "arn:aws:iam::123456789012:role/ghost"}), "InvalidParameterException", "does not exist")]
#[case::one_zone_only(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-a", "subnet-a2"]}}), "InvalidParameterException", "at least two different AZs")]
#[case::two_vpcs(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-a", "subnet-other"]}}), "InvalidParameterException", "same VPC")]
#[case::subnet_that_is_not_there(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-a", "subnet-ghost"]}}), "InvalidParameterException", "'subnet-ghost' does not exist")]
#[case::no_subnets(json!({"resourcesVpcConfig": {}}), "InvalidParameterException", "subnetIds")]
#[case::closed_on_both_sides(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-a", "subnet-b"], "endpointPublicAccess": false}}), "InvalidParameterException", "endpoint access cannot be false")]
#[case::cidr_that_is_none(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-a", "subnet-b"], "publicAccessCidrs": ["10.0.0.0/33"]}}), "InvalidParameterException", "10.0.0.0/33")]
#[case::public_service_cidr(json!({"kubernetesNetworkConfig": {"serviceIpv4Cidr": "8.8.8.0/24"}}), "InvalidParameterException", "serviceIpv4Cidr")]
#[case::reserved_tag(json!({"tags": {"aws:x": "y"}}), "InvalidParameterException", "aws:")]
#[case::unknown_log_type(json!({"logging": {"clusterLogging": [{"types": ["kubelet"], "enabled": true}]}}), "InvalidParameterException", "kubelet")]
#[case::key_that_is_none(json!({"encryptionConfig": [{"resources": ["secrets"], "provider": {"keyArn": "x"}}]}), "InvalidParameterException", "keyArn")]
#[case::wrong_type(json!({"roleArn": 7}), "SerializationException", "invalid type")]
fn a_cluster_that_breaks_a_rule_is_refused(#[case] change: Value, #[case] code: &str, #[case] text: &str) {
    let mut account = TestAccount::new();
    let (found, message) = account.refused("POST", "/clusters", with(cluster_request(), change));
    assert_eq!(found, code);
    assert!(message.contains(text), "{message}");
    assert_eq!(account.get("/clusters")["clusters"], json!([]), "nothing is left behind");
}

#[test]
fn the_default_version_is_the_one_that_eks_lists_as_default() {
    let mut account = TestAccount::new();
    account.ok("POST", "/clusters", with(cluster_request(), json!({ "version": null })));
    let listed = account.get("/cluster-versions?defaultOnly=true");
    assert_eq!(listed["clusterVersions"].as_array().unwrap().len(), 1);
    assert_eq!(
        account.get("/clusters/demo")["cluster"]["version"],
        listed["clusterVersions"][0]["clusterVersion"]
    );
}

#[test]
fn versions_are_listed_newest_first_and_page_by_page() {
    let mut account = TestAccount::new();
    let names = |page: &Value| -> Vec<String> {
        page["clusterVersions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["clusterVersion"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = account.get("/cluster-versions?maxResults=4");
    assert_eq!(names(&first), ["1.35", "1.34", "1.33", "1.32"]);
    let rest = account.get(&format!("/cluster-versions?nextToken={}", first["nextToken"].as_str().unwrap()));
    assert_eq!(names(&rest), ["1.31", "1.30"]);
}

#[test]
fn an_upgrade_takes_its_time_and_shows_its_result_only_at_the_end() {
    let mut account = TestAccount::with_cluster();
    let started = account.ok("POST", "/clusters/demo/updates", json!({ "version": "1.34" }));
    let id = started["update"]["id"].as_str().unwrap().to_owned();
    assert_eq!(started["update"]["type"], "VersionUpdate");
    let during = account.get("/clusters/demo");
    assert_eq!(
        (&during["cluster"]["status"], &during["cluster"]["version"]),
        (&json!("UPDATING"), &json!("1.33"))
    );
    assert_eq!(account.status(&format!("/clusters/demo/updates/{id}")), "InProgress");
    account.pass(1500);
    let after = account.get("/clusters/demo");
    assert_eq!(
        (&after["cluster"]["status"], &after["cluster"]["version"]),
        (&json!("ACTIVE"), &json!("1.34"))
    );
    assert_eq!(account.status(&format!("/clusters/demo/updates/{id}")), "Successful");
    assert_eq!(account.get("/clusters/demo/updates")["updateIds"], json!([id]));
}

#[test]
fn a_failed_update_leaves_the_cluster_active_and_as_it_was() {
    let mut account = TestAccount::with_cluster();
    let cluster = account.state.regions.get_mut("eu-west-1").unwrap().get_mut("demo").unwrap();
    let error = UpdateError {
        error_code: "IpNotAvailable".into(),
        error_message: "none".into(),
        resource_ids: vec![],
    };
    cluster.fail_next_update = Some(vec![error]);
    let id =
        account.ok("POST", "/clusters/demo/updates", json!({ "version": "1.34" }))["update"]["id"].clone();
    let update = format!("/clusters/demo/updates/{}", id.as_str().unwrap());
    assert_eq!(account.get(&update)["update"]["errors"], json!([]), "it does not fail before it is over");
    account.pass(1500);
    let failed = account.get(&update);
    assert_eq!(failed["update"]["status"], "Failed");
    assert_eq!(failed["update"]["errors"][0]["errorCode"], "IpNotAvailable");
    let cluster = account.get("/clusters/demo")["cluster"].clone();
    assert_eq!((&cluster["status"], &cluster["version"]), (&json!("ACTIVE"), &json!("1.33")));
    account.ok("POST", "/clusters/demo/updates", json!({ "version": "1.34" }));
}

#[rstest]
#[case("1.35", "Unsupported Kubernetes minor version update from 1.33 to 1.35")]
#[case("1.32", "Unsupported Kubernetes minor version update from 1.33 to 1.32")]
#[case("1.33", "Unsupported Kubernetes minor version update from 1.33 to 1.33")]
#[case("1.99", "unsupported Kubernetes version 1.99")]
fn an_upgrade_goes_up_by_one_minor_version(#[case] to: &str, #[case] message: &str) {
    let mut account = TestAccount::with_cluster();
    let refused = account.refused("POST", "/clusters/demo/updates", json!({ "version": to }));
    assert_eq!(refused, ("InvalidParameterException", message.to_owned()));
}

#[test]
fn nothing_else_is_updated_while_an_update_runs() {
    let mut account = TestAccount::with_cluster();
    let started = account.ok("POST", "/clusters/demo/updates", json!({ "version": "1.34" }));
    let id = started["update"]["id"].as_str().unwrap();
    let logging = json!({ "logging": { "clusterLogging": [{ "types": ["api"], "enabled": true }] } });
    let (code, message) = account.refused("POST", "/clusters/demo/update-config", logging);
    assert_eq!(code, "ResourceInUseException");
    assert_eq!(
        message,
        format!("Cannot LoggingUpdate because cluster demo currently has update {id} in progress")
    );
    let (code, message) = account.refused("POST", "/clusters/demo/fargate-profiles", profile_request("one"));
    assert_eq!(code, "ResourceInUseException");
    assert_eq!(
        message,
        "Cannot create Fargate Profile one because cluster demo currently has an update in progress"
    );
    let (code, message) = account.refused("POST", "/clusters/demo/addons", json!({ "addonName": "vpc-cni" }));
    assert_eq!(code, "ResourceInUseException");
    assert_eq!(
        message,
        format!("Cannot create Addon vpc-cni because cluster demo currently has update {id} in progress")
    );
    let (_, message) = account.refused("DELETE", "/clusters/demo", json!({}));
    assert_eq!(message, "Cannot delete because cluster demo currently has an update in progress");
}

#[rstest]
#[case::two_types(json!({"upgradePolicy": {"supportType": "STANDARD"}, "deletionProtection": true}), "Only one type of update can be allowed.")]
#[case::nothing(json!({}), "no update")]
#[case::no_change_of_logs(json!({"logging": {"clusterLogging": [{"types": ["api"], "enabled": false}]}}), "No changes needed for the logging config provided")]
#[case::no_change_of_endpoint(json!({"resourcesVpcConfig": {"endpointPublicAccess": true}}), "Cluster is already at the desired configuration with endpointPrivateAccess: false , endpointPublicAccess: true, and Public Endpoint Restrictions: [0.0.0.0/0]")]
#[case::back_to_config_map(json!({"accessConfig": {"authenticationMode": "CONFIG_MAP"}}), "Unsupported authentication mode update from API to CONFIG_MAP")]
#[case::subnets_of_another_vpc(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-a", "subnet-other"]}}), "same VPC")]
fn a_configuration_update_that_breaks_a_rule_is_refused(#[case] request: Value, #[case] text: &str) {
    let mut account = TestAccount::with_cluster();
    let (code, message) = account.refused("POST", "/clusters/demo/update-config", request);
    assert_eq!(code, "InvalidParameterException");
    assert!(message.contains(text), "{message}");
}

#[rstest]
#[case(json!({"resourcesVpcConfig": {"endpointPrivateAccess": true, "publicAccessCidrs": ["10.1.0.0/16"]}}), "/resourcesVpcConfig/publicAccessCidrs", json!(["10.1.0.0/16"]))]
#[case(json!({"resourcesVpcConfig": {"endpointPrivateAccess": true, "endpointPublicAccess": false, "publicAccessCidrs": ["0.0.0.0/0"]}}), "/resourcesVpcConfig/endpointPublicAccess", json!(false))]
#[case(json!({"resourcesVpcConfig": {"subnetIds": ["subnet-b", "subnet-a2"]}}), "/resourcesVpcConfig/subnetIds", json!(["subnet-b", "subnet-a2"]))]
#[case(json!({"logging": {"clusterLogging": [{"types": ["audit"], "enabled": true}]}}), "/logging/clusterLogging/0/types", json!(["audit"]))]
#[case(json!({"upgradePolicy": {"supportType": "STANDARD"}}), "/upgradePolicy/supportType", json!("STANDARD"))]
#[case(json!({"zonalShiftConfig": {"enabled": true}}), "/zonalShiftConfig/enabled", json!(true))]
#[case(json!({"deletionProtection": true}), "/deletionProtection", json!(true))]
#[case(json!({"computeConfig": {"enabled": true}}), "/computeConfig/enabled", json!(true))]
fn a_configuration_update_takes_effect_when_it_is_over(
    #[case] request: Value,
    #[case] at: &str,
    #[case] value: Value,
) {
    let mut account = TestAccount::with_cluster();
    account.ok("POST", "/clusters/demo/update-config", request);
    assert_eq!(account.status("/clusters/demo"), "UPDATING");
    assert_ne!(account.get("/clusters/demo")["cluster"].pointer(at), Some(&value));
    account.pass(1500);
    assert_eq!(account.get("/clusters/demo")["cluster"].pointer(at), Some(&value));
}

#[test]
fn encryption_is_switched_on_once_and_for_ever() {
    let mut account = TestAccount::with_cluster();
    let request = json!({"encryptionConfig": [{"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:eu-west-1:123456789012:key/1"}}]});
    account.ok("POST", "/clusters/demo/encryption-config/associate", request.clone());
    account.pass(1500);
    assert_eq!(account.get("/clusters/demo")["cluster"]["encryptionConfig"], request["encryptionConfig"]);
    let (code, _) = account.refused("POST", "/clusters/demo/encryption-config/associate", request);
    assert_eq!(code, "InvalidParameterException");
}

#[test]
fn a_cluster_with_profiles_or_addons_or_protection_is_not_deleted() {
    let mut account = TestAccount::with_profile();
    account.ok("POST", "/clusters/demo/addons", json!({ "addonName": "vpc-cni" }));
    account.pass(500);
    let refused = account.refused("DELETE", "/clusters/demo", json!({}));
    assert_eq!(
        refused,
        ("ResourceInUseException", "Cluster has Fargate Profiles in ACTIVE/CREATING state".to_owned())
    );
    account.ok("DELETE", "/clusters/demo/fargate-profiles/one", json!({}));
    account.pass(1000);
    assert_eq!(account.refused("DELETE", "/clusters/demo", json!({})).0, "ResourceInUseException");
    account.ok("DELETE", "/clusters/demo/addons/vpc-cni", json!({}));
    account.pass(500);
    account.ok("POST", "/clusters/demo/update-config", json!({ "deletionProtection": true }));
    account.pass(1500);
    assert_eq!(account.refused("DELETE", "/clusters/demo", json!({})).0, "InvalidRequestException");
    account.ok("POST", "/clusters/demo/update-config", json!({ "deletionProtection": false }));
    account.pass(1500);
    account.ok("DELETE", "/clusters/demo", json!({}));
}

#[test]
fn a_cluster_that_is_still_created_is_not_deleted_and_takes_no_profile() {
    let mut account = TestAccount::new();
    account.ok("POST", "/clusters", cluster_request());
    let (code, message) = account.refused("DELETE", "/clusters/demo", json!({}));
    assert_eq!(code, "ResourceInUseException");
    assert!(message.contains("in progress"), "terraform retries only on these words: {message}");
    let refused = account.refused("POST", "/clusters/demo/fargate-profiles", profile_request("one"));
    assert_eq!(refused, ("InvalidRequestException", "Cluster 'demo' is not in ACTIVE status".to_owned()));
}

#[test]
fn whoever_creates_a_cluster_is_its_admin_unless_that_was_declined() {
    let mut account = TestAccount::with_cluster();
    assert_eq!(account.get("/clusters/demo/access-entries")["accessEntries"], json!([CREATOR]));
    let policies = account
        .get(&format!("/clusters/demo/access-entries/{}/access-policies", CREATOR.replace('/', "%2F")));
    let arn = policies["associatedAccessPolicies"][0]["policyArn"].as_str().unwrap();
    assert_eq!(arn, "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy");
    let mut account = TestAccount::new();
    let declined = json!({ "accessConfig": { "authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": false } });
    account.ok("POST", "/clusters", with(cluster_request(), declined));
    assert_eq!(account.get("/clusters/demo/access-entries")["accessEntries"], json!([]));
}
