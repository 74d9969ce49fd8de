use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{CREATOR, DEV_ROLE, TestAccount, cluster_request, with};
use crate::{
    cluster_host::{AttachedPolicy, ClusterPrincipal, HostedEndpoint},
    eks::{
        cluster_host_state::{apply_host_result, cluster_principals, reset_hosting},
        state::{Cluster, ClusterApi},
    },
};

fn hosted() -> TestAccount {
    let mut account = TestAccount::new();
    account.settings.has_host = true;
    account.ok("POST", "/clusters", cluster_request());
    account
}

fn demo(account: &mut TestAccount) -> &mut Cluster {
    account.state.regions.get_mut("eu-west-1").unwrap().get_mut("demo").unwrap()
}

fn hosting() -> HostedEndpoint {
    HostedEndpoint { endpoint: "https://127.0.0.1:7".to_owned(), certificate_authority_pem: "PEM".to_owned() }
}

#[test]
fn a_cluster_is_not_active_before_its_api_answers() {
    let mut account = hosted();
    account.pass(60_000);
    let waiting = account.get("/clusters/demo");
    assert_eq!(waiting["cluster"]["status"], "CREATING");
    assert_eq!(waiting["cluster"]["endpoint"], Value::Null);
    apply_host_result(demo(&mut account), Ok(hosting()));
    let made = account.get("/clusters/demo");
    assert_eq!(made["cluster"]["status"], "ACTIVE");
    assert_eq!(made["cluster"]["endpoint"], "https://127.0.0.1:7");
    assert_eq!(made["cluster"]["certificateAuthority"]["data"], "UEVN");
}

#[test]
fn an_api_that_answers_early_does_not_shorten_the_creation() {
    let mut account = hosted();
    apply_host_result(demo(&mut account), Ok(hosting()));
    let early = account.get("/clusters/demo");
    assert_eq!(early["cluster"]["status"], "CREATING");
    assert_eq!(early["cluster"]["endpoint"], Value::Null);
    account.pass(2000);
    assert_eq!(account.status("/clusters/demo"), "ACTIVE");
}

#[test]
fn a_cluster_without_its_api_has_failed_says_why_and_can_only_be_deleted() {
    let mut account = hosted();
    apply_host_result(demo(&mut account), Err("no port is free".into()));
    account.pass(2000);
    let failed = account.get("/clusters/demo");
    assert_eq!(failed["cluster"]["status"], "FAILED");
    assert_eq!(failed["cluster"]["endpoint"], Value::Null);
    let issue = &failed["cluster"]["health"]["issues"][0];
    assert_eq!(issue["code"], "InternalFailure");
    assert!(issue["message"].as_str().unwrap().ends_with("no port is free"), "{issue}");
    let (code, _) = account.refused("POST", "/clusters/demo/updates", json!({ "version": "1.34" }));
    assert_eq!(code, "ResourceInUseException");
    account.ok("DELETE", "/clusters/demo", json!({}));
    account.pass(1500);
    account.refused("GET", "/clusters/demo", json!({}));
}

#[test]
fn access_entries_are_who_is_let_in() {
    let mut account = hosted();
    apply_host_result(demo(&mut account), Ok(hosting()));
    account.pass(2000);
    let admin = AttachedPolicy { name: "AmazonEKSClusterAdminPolicy".to_owned(), namespaces: Vec::new() };
    let creator = ClusterPrincipal {
        principal: CREATOR.to_owned(),
        username: CREATOR.to_owned(),
        groups: Vec::new(),
        policies: vec![admin],
    };
    assert_eq!(cluster_principals(demo(&mut account)), std::slice::from_ref(&creator));
    let entry = json!({ "principalArn": DEV_ROLE, "kubernetesGroups": ["readers"] });
    account.ok("POST", "/clusters/demo/access-entries", entry);
    let target = format!("/clusters/demo/access-entries/{}/access-policies", DEV_ROLE.replace('/', "%2F"));
    let policy = json!({
        "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
        "accessScope": { "type": "namespace", "namespaces": ["shop"] },
    });
    account.ok("POST", &target, policy);
    let developer = ClusterPrincipal {
        principal: DEV_ROLE.to_owned(),
        username: "arn:aws:sts::123456789012:assumed-role/developer/{{SessionName}}".to_owned(),
        groups: vec!["readers".to_owned()],
        policies: vec![AttachedPolicy {
            name: "AmazonEKSViewPolicy".to_owned(),
            namespaces: vec!["shop".to_owned()],
        }],
    };
    assert_eq!(cluster_principals(demo(&mut account)), [developer, creator]);
}

#[test]
fn without_access_entries_the_creator_is_let_in() {
    let mut account = TestAccount::new();
    let request = with(cluster_request(), json!({ "accessConfig": { "authenticationMode": "CONFIG_MAP" } }));
    account.ok("POST", "/clusters", request);
    let principals: Vec<_> =
        cluster_principals(demo(&mut account)).into_iter().map(|who| who.principal).collect();
    assert_eq!(principals, [CREATOR]);
}

#[test]
fn after_a_restart_an_api_is_awaited_where_it_was_and_only_if_there_is_a_host() {
    let mut account = hosted();
    apply_host_result(demo(&mut account), Ok(hosting()));
    account.pass(2000);
    account.get("/clusters/demo");
    reset_hosting(&mut account.state, true);
    assert_eq!(
        demo(&mut account).api,
        ClusterApi::Awaited { before: Some("https://127.0.0.1:7".to_owned()) }
    );
    reset_hosting(&mut account.state, false);
    assert_eq!(demo(&mut account).api, ClusterApi::Unhosted);
    let endpoint = account.get("/clusters/demo")["cluster"]["endpoint"].clone();
    assert!(endpoint.as_str().unwrap().ends_with(".eks.amazonaws.com"), "{endpoint}");
}
