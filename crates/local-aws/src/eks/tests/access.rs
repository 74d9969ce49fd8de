use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::{CREATOR, DEV_ROLE, POD_ROLE, TestAccount, cluster_request, profile_request, with};

const ENTRIES: &str = "/clusters/demo/access-entries";
const VIEW: &str = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy";

fn path(arn: &str) -> String {
    format!("{ENTRIES}/{}", crate::query_string::percent_encode(arn))
}

#[test]
fn an_entry_is_created_changed_and_deleted() {
    let mut account = TestAccount::with_cluster();
    let made = account.ok("POST", ENTRIES, json!({ "principalArn": DEV_ROLE, "kubernetesGroups": ["devs"] }));
    let username = "arn:aws:sts::123456789012:assumed-role/developer/{{SessionName}}";
    assert_eq!(made["accessEntry"]["username"], username);
    account.pass(10);
    let changed = account.ok("POST", &path(DEV_ROLE), json!({ "kubernetesGroups": ["ops"] }));
    assert_eq!(changed["accessEntry"]["kubernetesGroups"], json!(["ops"]));
    assert_ne!(changed["accessEntry"]["modifiedAt"], changed["accessEntry"]["createdAt"]);
    account.ok("DELETE", &path(DEV_ROLE), json!({}));
    let (code, message) = account.refused("GET", &path(DEV_ROLE), json!({}));
    assert_eq!(code, "ResourceNotFoundException");
    assert!(message.starts_with("The specified principalArn could not be found."), "{message}");
}

#[rstest]
#[case::taken(json!({"principalArn": CREATOR}), "ResourceInUseException", "The specified access entry resource is already in use on this cluster.")]
#[case::not_there(json!({"principalArn": "arn:aws:iam::123456789012:role/ghost"}), "InvalidParameterException", "The specified principalArn is invalid: invalid principal")]
#[case::no_principal(json!({"principalArn": "arn:aws:s3:::bucket"}), "InvalidParameterException", "format is not valid")]
#[case::group_of_the_system(json!({"principalArn": DEV_ROLE, "kubernetesGroups": ["system:masters"]}), "InvalidParameterException", "system:masters")]
#[case::node_with_groups(json!({"principalArn": DEV_ROLE, "type": "EC2_LINUX", "kubernetesGroups": ["x"]}), "InvalidParameterException", "neither")]
#[case::unknown_type(json!({"principalArn": DEV_ROLE, "type": "ROBOT"}), "InvalidParameterException", "ROBOT")]
fn an_entry_that_breaks_a_rule_is_refused(#[case] request: Value, #[case] code: &str, #[case] text: &str) {
    let mut account = TestAccount::with_cluster();
    let (found, message) = account.refused("POST", ENTRIES, request);
    assert_eq!(found, code);
    assert!(message.contains(text), "{message}");
}

#[test]
fn a_policy_is_associated_listed_and_taken_away() {
    let mut account = TestAccount::with_cluster();
    account.ok("POST", ENTRIES, json!({ "principalArn": DEV_ROLE }));
    let policies = format!("{}/access-policies", path(DEV_ROLE));
    let scope = json!({ "type": "namespace", "namespaces": ["default"] });
    account.ok("POST", &policies, json!({ "policyArn": VIEW, "accessScope": scope }));
    assert_eq!(account.get(&policies)["associatedAccessPolicies"][0]["accessScope"], scope);
    let filtered =
        account.get(&format!("{ENTRIES}?associatedPolicyArn={}", crate::query_string::percent_encode(VIEW)));
    assert_eq!(filtered["accessEntries"], json!([DEV_ROLE]));
    account.ok("DELETE", &format!("{policies}/{}", crate::query_string::percent_encode(VIEW)), json!({}));
    assert_eq!(account.get(&policies)["associatedAccessPolicies"], json!([]));
    for (arn, scope) in [
        ("arn:aws:eks::aws:cluster-access-policy/Root", json!({ "type": "cluster" })),
        (VIEW, json!({ "type": "namespace" })),
        (VIEW, json!({ "type": "cluster", "namespaces": ["a"] })),
        (VIEW, json!({ "type": "planet" })),
    ] {
        let request = json!({ "policyArn": arn, "accessScope": scope });
        assert_eq!(account.refused("POST", &policies, request).0, "InvalidParameterException");
    }
}

#[test]
fn a_cluster_in_config_map_mode_knows_no_entries_until_its_mode_is_raised() {
    let mut account = TestAccount::new();
    account.ok("POST", "/clusters", with(cluster_request(), json!({ "accessConfig": null })));
    account.pass(2000);
    account.ok("POST", "/clusters/demo/fargate-profiles", profile_request("one"));
    account.pass(1000);
    let (code, message) = account.refused("GET", ENTRIES, json!({}));
    assert_eq!(code, "InvalidRequestException");
    assert!(message.contains("must be set to one of [API, API_AND_CONFIG_MAP]"), "{message}");
    let api = json!({ "accessConfig": { "authenticationMode": "API" } });
    let (_, message) = account.refused("POST", "/clusters/demo/update-config", api.clone());
    assert_eq!(message, "Unsupported authentication mode update from CONFIG_MAP to API");
    let both = json!({ "accessConfig": { "authenticationMode": "API_AND_CONFIG_MAP" } });
    account.ok("POST", "/clusters/demo/update-config", both);
    account.pass(1500);
    assert_eq!(
        account.get(ENTRIES)["accessEntries"],
        json!([POD_ROLE]),
        "EKS admits the roles of its profiles"
    );
    account.ok("POST", "/clusters/demo/update-config", api);
}

#[test]
fn a_service_account_has_one_association() {
    let mut account = TestAccount::with_cluster();
    let associations = "/clusters/demo/pod-identity-associations";
    let request = json!({ "namespace": "default", "serviceAccount": "web", "roleArn": DEV_ROLE });
    let made = account.ok("POST", associations, request.clone());
    let id = made["association"]["associationId"].as_str().unwrap().to_owned();
    let refused = account.refused("POST", associations, request.clone());
    assert_eq!(refused, ("ResourceInUseException", format!("Association already exists: {id}")));
    let ghost = json!({ "serviceAccount": "x", "roleArn": "arn:aws:iam::123456789012:role/ghost" });
    let refused = account.refused("POST", associations, with(request, ghost));
    assert_eq!(refused.1, "Role provided in the request does not exist.");
    account.ok("POST", &format!("{associations}/{id}"), json!({ "roleArn": POD_ROLE }));
    assert_eq!(account.get(&format!("{associations}/{id}"))["association"]["roleArn"], POD_ROLE);
    assert_eq!(account.get(&format!("{associations}?namespace=other"))["associations"], json!([]));
    account.ok("DELETE", &format!("{associations}/{id}"), json!({}));
    assert_eq!(
        account.refused("DELETE", &format!("{associations}/{id}"), json!({})).0,
        "ResourceNotFoundException"
    );
}

#[test]
fn an_identity_provider_is_associated_by_an_update() {
    let mut account = TestAccount::with_cluster();
    let configs = "/clusters/demo/identity-provider-configs";
    let dex = json!({ "oidc": { "identityProviderConfigName": "dex", "issuerUrl": "https://dex.example.com", "clientId": "k" } });
    account.ok("POST", &format!("{configs}/associate"), dex.clone());
    assert_eq!(account.status("/clusters/demo"), "UPDATING");
    account.pass(1500);
    let by_name = json!({ "identityProviderConfig": { "type": "oidc", "name": "dex" } });
    let found = account.ok("POST", &format!("{configs}/describe"), by_name.clone());
    assert_eq!(found["identityProviderConfig"]["oidc"]["status"], "ACTIVE");
    assert_eq!(
        account.refused("POST", &format!("{configs}/associate"), dex).0,
        "ResourceLimitExceededException"
    );
    account.ok("POST", &format!("{configs}/disassociate"), by_name);
    account.pass(1500);
    assert_eq!(account.get(configs)["identityProviderConfigs"], json!([]));
}

#[test]
fn everything_with_an_arn_can_be_tagged() {
    let mut account = TestAccount::with_profile();
    account.ok("POST", ENTRIES, json!({ "principalArn": DEV_ROLE }));
    account.ok("POST", "/clusters/demo/addons", json!({ "addonName": "kube-proxy" }));
    let arns = [
        account.get("/clusters/demo")["cluster"]["arn"].clone(),
        account.get("/clusters/demo/fargate-profiles/one")["fargateProfile"]["fargateProfileArn"].clone(),
        account.get("/clusters/demo/addons/kube-proxy")["addon"]["addonArn"].clone(),
        account.get(&path(DEV_ROLE))["accessEntry"]["accessEntryArn"].clone(),
    ];
    for arn in arns {
        let target = format!("/tags/{}", crate::query_string::percent_encode(arn.as_str().unwrap()));
        account.ok("POST", &target, json!({ "tags": { "a": "1", "b": "2" } }));
        account.ok("DELETE", &format!("{target}?tagKeys=a"), json!({}));
        assert_eq!(account.get(&target), json!({ "tags": { "b": "2" } }));
    }
    let nobody = "/tags/arn%3Aaws%3Aeks%3Aeu-west-1%3A123456789012%3Acluster%2Fghost";
    assert_eq!(account.refused("GET", nobody, json!({})).0, "NotFoundException");
    assert_eq!(account.refused("GET", "/tags/nonsense", json!({})).0, "BadRequestException");
}

#[test]
fn an_addon_is_versioned_configured_and_updated() {
    let mut account = TestAccount::with_cluster();
    let addons = "/clusters/demo/addons";
    let made = account.ok("POST", addons, json!({ "addonName": "kube-proxy" }));
    assert_eq!(made["addon"]["addonVersion"], "v1.33.1-eksbuild.2", "the default of that Kubernetes version");
    assert_eq!(
        account.refused("POST", addons, json!({ "addonName": "kube-proxy" })).1,
        "Addon already exists."
    );
    let (_, message) = account.refused("POST", &format!("{addons}/kube-proxy/update"), json!({}));
    assert_eq!(message, "Addon kube-proxy cannot be updated as it is currently in CREATING state");
    account.pass(500);
    for (request, text) in [
        (json!({ "addonVersion": "v1.34.1-eksbuild.2" }), "Addon version specified is not supported"),
        (json!({ "configurationValues": "{\"nope\":1}" }), "$.nope: is not defined in the schema"),
        (json!({ "configurationValues": "][" }), "ConfigurationValue provided in request is not supported"),
    ] {
        let (code, message) = account.refused("POST", &format!("{addons}/kube-proxy/update"), request);
        assert_eq!(code, "InvalidParameterException");
        assert!(message.contains(text), "{message}");
    }
    let update = account.ok(
        "POST",
        &format!("{addons}/kube-proxy/update"),
        json!({ "addonVersion": "v1.33.3-eksbuild.2" }),
    );
    let id = update["update"]["id"].as_str().unwrap();
    assert_eq!(
        account.refused("GET", &format!("/clusters/demo/updates/{id}"), json!({})).0,
        "ResourceNotFoundException"
    );
    assert_eq!(account.status(&format!("/clusters/demo/updates/{id}?addonName=kube-proxy")), "InProgress");
    account.pass(500);
    assert_eq!(account.status(&format!("{addons}/kube-proxy")), "ACTIVE");
    assert_eq!(
        account.refused("POST", addons, json!({ "addonName": "istio" })).1,
        "Addon specified is not supported"
    );
    let (_, message) = account.refused("GET", &format!("{addons}/coredns"), json!({}));
    assert_eq!(message, "No addon: coredns found in cluster: demo");
}

#[test]
fn associations_of_an_addon_come_and_go_with_it() {
    let mut account = TestAccount::with_cluster();
    let request = json!({ "addonName": "vpc-cni", "podIdentityAssociations": [{ "serviceAccount": "aws-node", "roleArn": DEV_ROLE }] });
    account.ok("POST", "/clusters/demo/addons", request);
    let associations = "/clusters/demo/pod-identity-associations";
    assert_eq!(account.get(associations)["associations"][0]["serviceAccount"], "aws-node");
    account.pass(500);
    account.ok("DELETE", "/clusters/demo/addons/vpc-cni", json!({}));
    account.pass(500);
    assert_eq!(account.get(associations)["associations"], json!([]));
}

#[test]
fn the_default_addon_version_is_the_one_that_is_listed_as_default() {
    let mut account = TestAccount::with_cluster();
    let listed = account.get("/addons/supported-versions?addonName=coredns&kubernetesVersion=1.33");
    let versions = listed["addons"][0]["addonVersions"].as_array().unwrap();
    let default = versions.iter().find(|v| v["compatibilities"][0]["defaultVersion"] == true).unwrap();
    let made = account.ok("POST", "/clusters/demo/addons", json!({ "addonName": "coredns" }));
    assert_eq!(made["addon"]["addonVersion"], default["addonVersion"]);
    let version = default["addonVersion"].as_str().unwrap();
    let schema =
        account.get(&format!("/addons/configuration-schemas?addonName=coredns&addonVersion={version}"));
    let schema: Value = serde_json::from_str(schema["configurationSchema"].as_str().unwrap()).unwrap();
    assert!(schema["properties"]["computeType"].is_object());
}
