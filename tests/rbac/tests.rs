//! The rules of RBAC, one by one.

use serde_json::json;

use super::{AccessRequest, Grant, RbacComparison, collect_grants, compare, is_allowed};

fn rules(value: &serde_json::Value) -> Vec<k8s_openapi::api::rbac::v1::PolicyRule> {
    serde_json::from_value(value.clone()).unwrap()
}

fn request(verb: &str, resource: &str, namespace: &str, name: &str) -> AccessRequest {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    AccessRequest {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn grant(role: &str, namespace: Option<&str>, value: &serde_json::Value) -> Grant {
    Grant { role: role.to_owned(), namespace: namespace.map(str::to_owned), rules: rules(value) }
}

fn comparison_texts(compared: &RbacComparison) -> (Vec<String>, Vec<String>) {
    (
        compared.refused.iter().map(ToString::to_string).collect(),
        compared.unused.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn verb_group_and_resource_must_stand_in_the_same_rule() {
    let rules = rules(&json!([
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] },
        { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"] },
    ]));
    assert!(is_allowed(&rules, "get", "", "secrets", ""));
    assert!(!is_allowed(&rules, "patch", "", "secrets", ""));
    assert!(!is_allowed(&rules, "get", "apps", "secrets", ""));
    assert!(is_allowed(&rules, "patch", "apps", "deployments", ""));
}

#[test]
fn a_subresource_is_a_resource_of_its_own() {
    let rules = rules(&json!([
        { "apiGroups": ["g"], "resources": ["things"], "verbs": ["patch"] },
        { "apiGroups": ["g"], "resources": ["others/status"], "verbs": ["patch"] },
    ]));
    assert!(!is_allowed(&rules, "patch", "g", "things", "status"));
    assert!(is_allowed(&rules, "patch", "g", "others", "status"));
    assert!(!is_allowed(&rules, "patch", "g", "others", ""));
}

#[test]
fn stars_stand_for_everything_at_their_place() {
    let all = rules(&json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]));
    assert!(is_allowed(&all, "delete", "any", "things", "status"));
    let status = rules(&json!([{ "apiGroups": ["g"], "resources": ["*/status"], "verbs": ["patch"] }]));
    assert!(is_allowed(&status, "patch", "g", "things", "status"));
    assert!(!is_allowed(&status, "patch", "g", "things", ""));
}

#[test]
fn a_rule_for_named_objects_allows_nothing_on_the_others() {
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "create"] }]);
    assert!(!is_allowed(&self::rules(&rules), "get", "", "secrets", ""));
    let grants = [grant("r", None, &rules)];
    // A creation has no name when it is judged.
    let requests = [
        request("get", "secrets", "a", "mine"),
        request("get", "secrets", "a", "yours"),
        request("create", "secrets", "a", ""),
    ];
    let (refused, unused) = comparison_texts(&compare(&grants, &requests));
    assert_eq!(refused, ["create secrets in a", "get secrets in a"]);
    assert_eq!(unused, ["r: create secrets"]);
}

#[test]
fn a_grant_in_a_namespace_holds_there_alone() {
    let leases = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"] }]);
    let grants = [grant("leader", Some("own"), &leases)];
    let there = [request("get", "leases.coordination.k8s.io", "own", "x")];
    assert_eq!(compare(&grants, &there), RbacComparison::default());
    let elsewhere = [
        request("get", "leases.coordination.k8s.io", "other", "x"),
        request("get", "leases.coordination.k8s.io", "", ""),
    ];
    let (refused, unused) = comparison_texts(&compare(&grants, &elsewhere));
    assert_eq!(refused, ["get leases.coordination.k8s.io", "get leases.coordination.k8s.io in other"]);
    assert_eq!(unused, ["leader: get leases.coordination.k8s.io"]);
}

#[test]
fn what_nobody_asked_for_is_told_verb_by_verb() {
    let grants = [grant(
        "r",
        None,
        &json!([
            { "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get", "delete"] },
            { "apiGroups": ["g"], "resources": ["things/status"], "verbs": ["patch"] },
            { "apiGroups": ["g"], "resources": ["things/finalizers"], "verbs": ["update"] },
        ]),
    )];
    let requests = [
        request("get", "secrets", "a", "x"),
        request("get", "secrets", "b", "y"),
        request("patch", "things.g/status", "a", "x"),
    ];
    let (refused, unused) = comparison_texts(&compare(&grants, &requests));
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(unused, ["r: delete configmaps", "r: delete secrets", "r: get configmaps"]);
}

#[test]
fn bindings_lead_from_an_account_to_its_rules() {
    let binding = |kind: &str, namespace: Option<&str>, role: &str, account: &str| {
        let role_kind = if kind == "RoleBinding" { "Role" } else { "ClusterRole" };
        json!({
            "kind": kind, "metadata": { "name": role, "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": "own" }],
        })
    };
    let role = |kind: &str, namespace: Option<&str>, name: &str| {
        json!({
            "kind": kind, "metadata": { "name": name, "namespace": namespace },
            "rules": [{ "apiGroups": [""], "resources": [name], "verbs": ["get"] }],
        })
    };
    let objects = [
        role("ClusterRole", None, "pods"),
        role("ClusterRole", None, "nodes"),
        role("Role", Some("own"), "secrets"),
        binding("ClusterRoleBinding", None, "pods", "capt"),
        binding("ClusterRoleBinding", None, "nodes", "somebody"),
        binding("RoleBinding", Some("own"), "secrets", "capt"),
    ];
    let found = collect_grants(&objects, "own", "capt");
    let places: Vec<_> = found.iter().map(|it| (it.role.as_str(), it.namespace.as_deref())).collect();
    assert_eq!(places, [("pods", None), ("secrets", Some("own"))]);
}
