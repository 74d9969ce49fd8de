use serde_json::{Value, json};

use super::*;

fn policy(objects: &[(&str, Value)]) -> Policy {
    Policy::from_objects(objects.iter().map(|(key, value)| (*key, value.clone())))
}

fn may(policy: &Policy, user: &User, wanted: &Attributes) -> bool {
    let mut allowed = false;
    policy.visit_bindings(user, &wanted.namespace, |source| {
        if let BindingSource::Rules(rules, _) = source {
            allowed |= rules.iter().any(|rule| rule.allows(wanted));
        }
        true
    });
    allowed
}

fn on(verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    }
}

fn ann() -> User {
    User { name: "ann".to_owned(), groups: vec!["devs".to_owned()], ..User::default() }
}

const ROLES: &str = "rbac.authorization.k8s.io/roles/shop/reader";
const BINDINGS: &str = "rbac.authorization.k8s.io/rolebindings/shop/readers";

fn reader(rule: &Value) -> Vec<(&'static str, Value)> {
    vec![
        (ROLES, json!({"metadata": {"name": "reader", "namespace": "shop"}, "rules": [rule]})),
        (
            BINDINGS,
            json!({
                "metadata": {"name": "readers", "namespace": "shop"},
                "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "Group", "name": "devs"}, {"kind": "ServiceAccount", "name": "bot"}],
            }),
        ),
    ]
}

#[test]
fn a_role_holds_in_its_namespace_only() {
    let policy = policy(&reader(&json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]})));
    assert!(may(&policy, &ann(), &on("get", "secrets", "shop", "x")));
    assert!(!may(&policy, &ann(), &on("get", "secrets", "other", "x")));
    assert!(!may(&policy, &ann(), &on("list", "secrets", "shop", "")));
    assert!(!may(&policy, &ann(), &on("get", "secrets/status", "shop", "x")));
    let bot = User { name: "system:serviceaccount:shop:bot".to_owned(), ..User::default() };
    assert!(may(&policy, &bot, &on("get", "secrets", "shop", "x")));
    let foreign = User { name: "system:serviceaccount:other:bot".to_owned(), ..User::default() };
    assert!(!may(&policy, &foreign, &on("get", "secrets", "shop", "x")));
}

#[test]
fn names_and_subresources_narrow_a_rule() {
    let rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods/status", "*/scale"], "resourceNames": ["a"]});
    let policy = policy(&reader(&rule));
    assert!(may(&policy, &ann(), &on("update", "pods/status", "shop", "a")));
    assert!(!may(&policy, &ann(), &on("update", "pods/status", "shop", "b")));
    assert!(may(&policy, &ann(), &on("update", "deployments/scale", "shop", "a")));
    assert!(!may(&policy, &ann(), &on("update", "pods", "shop", "a")));
}

#[test]
fn an_aggregated_role_takes_up_the_rules_of_labelled_ones() {
    let policy = policy(&[
        (
            "rbac.authorization.k8s.io/clusterroles//sum",
            json!({"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]}}),
        ),
        (
            "rbac.authorization.k8s.io/clusterroles//part",
            json!({"metadata": {"name": "part", "labels": {"to": "sum"}}, "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}, {"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}]}),
        ),
        (
            "rbac.authorization.k8s.io/clusterrolebindings//b",
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "sum"}, "subjects": [{"kind": "User", "name": "ann"}]}),
        ),
    ]);
    assert!(may(&policy, &ann(), &on("list", "pods", "", "")));
    assert!(may(&policy, &ann(), &Attributes::for_path("GET", "/metrics/cadvisor")));
    assert!(!may(&policy, &ann(), &Attributes::for_path("GET", "/metrics")));
}

#[test]
fn the_refusal_is_the_real_servers() {
    let mut wanted = on("list", "secrets", "y", "");
    let user = User { name: "x".to_owned(), ..User::default() };
    assert_eq!(
        wanted.forbidden(&user, "").message(),
        r#"secrets is forbidden: User "x" cannot list resource "secrets" in API group "" in the namespace "y""#
    );
    wanted.namespace.clear();
    wanted.name = "n".to_owned();
    wanted.subresource = "status".to_owned();
    assert_eq!(
        wanted.forbidden(&user, "").message(),
        r#"secrets "n" is forbidden: User "x" cannot list resource "secrets/status" in API group "" at the cluster scope"#
    );
    assert_eq!(
        Attributes::for_path("GET", "/metrics").forbidden(&user, "").message(),
        r#"forbidden: User "x" cannot get path "/metrics""#
    );
}
