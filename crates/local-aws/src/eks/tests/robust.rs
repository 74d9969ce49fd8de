//! No input may panic, and a saved model is the model.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{TestAccount, profile_request};
use crate::eks::state::EksState;

/// Every operation with a body, against bodies of every wrong shape.
#[test]
fn garbage_is_refused_with_an_exception() {
    let shapes = [
        json!({}),
        json!({ "name": null, "version": [], "roleArn": {}, "resourcesVpcConfig": "x" }),
        json!({ "name": "demo", "roleArn": "x", "resourcesVpcConfig": { "subnetIds": "subnet-a" } }),
        json!({ "resourcesVpcConfig": 7, "logging": 7, "accessConfig": { "authenticationMode": "ROOT" } }),
        json!({ "fargateProfileName": "", "podExecutionRoleArn": "", "selectors": [null] }),
        json!({ "addonName": "", "configurationValues": {} }),
        json!({ "principalArn": ":::::", "policyArn": "", "accessScope": [] }),
        json!({ "namespace": 1, "serviceAccount": 2, "roleArn": 3 }),
        json!({ "oidc": null, "identityProviderConfig": {} }),
        json!({ "tags": [], "encryptionConfig": [[]] }),
    ];
    let targets = [
        "/clusters",
        "/clusters/demo/updates",
        "/clusters/demo/encryption-config/associate",
        "/clusters/demo/fargate-profiles",
        "/clusters/demo/addons",
        "/clusters/demo/access-entries",
        "/clusters/demo/access-entries/x/access-policies",
        "/clusters/demo/pod-identity-associations",
        "/clusters/demo/identity-provider-configs/associate",
        "/clusters/demo/identity-provider-configs/describe",
        "/tags/x",
    ];
    let mut account = TestAccount::with_cluster();
    for target in targets {
        for shape in &shapes {
            let error = account.call("POST", target, shape).unwrap_err();
            assert!((400..500).contains(&error.status), "{target} {shape} {error:?}");
        }
    }
    assert_eq!(account.status("/clusters/demo"), "ACTIVE");
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in [&b"["[..], b"7", b"null", b"\xff\xfe", b"{\"name\":\"a\"", b"\"x\""] {
        assert_eq!(crate::eks::input::parse_json_body(body).unwrap_err().code, "SerializationException");
    }
    assert_eq!(crate::eks::input::parse_json_body(b" \n").unwrap(), json!({}));
}

#[test]
fn a_saved_model_goes_on_where_it_stopped() {
    let mut account = TestAccount::with_profile();
    account.ok("POST", "/clusters/demo/updates", json!({ "version": "1.34" }));
    let saved: Value = serde_json::to_value(&account.state).unwrap();
    account.state = EksState::default();
    account.state = serde_json::from_value(saved.clone()).unwrap();
    assert_eq!(serde_json::to_value(&account.state).unwrap(), saved);
    assert_eq!(account.status("/clusters/demo"), "UPDATING");
    account.pass(1500);
    assert_eq!(account.get("/clusters/demo")["cluster"]["version"], "1.34");
    account.ok("POST", "/clusters/demo/fargate-profiles", profile_request("two"));
}

#[test]
fn durations_beyond_time_do_not_overflow() {
    let mut account = TestAccount::new();
    account.settings.timing.cluster_create_ms = u64::MAX;
    account.ok("POST", "/clusters", super::cluster_request());
    account.pass(1_000_000_000);
    assert_eq!(account.status("/clusters/demo"), "CREATING");
}

#[test]
fn operations_that_are_not_modelled_say_so() {
    let mut account = TestAccount::with_cluster();
    assert_eq!(account.get("/clusters/demo/node-groups")["nodegroups"], json!([]));
    assert_eq!(
        account.refused("GET", "/clusters/demo/node-groups/x", json!({})).0,
        "ResourceNotFoundException"
    );
    assert_eq!(account.refused("POST", "/clusters/demo/node-groups", json!({})).0, "NotImplementedException");
}
