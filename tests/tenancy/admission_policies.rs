//! Each `ValidatingAdmissionPolicy` of deploy/, evaluated with the variables that the API server gives it. Unknown fields are found by
//! `tests/deploy`.

use kube_cel::{
    KubeCelExt as _,
    cel::{Context, Program, Value as Cel, to_value},
};
use serde_json::{Value, json};

const POLICIES: &str = include_str!("../../deploy/policies/references.yaml");

fn policies() -> Vec<Value> {
    serde_saphyr::from_multiple(POLICIES).unwrap()
}

fn find(kind: &str, name: &str) -> Value {
    let is = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == format!("{name}.capt.x-k8s.io");
    policies().into_iter().find(is).unwrap_or_else(|| panic!("{kind} {name} is missing"))
}

/// The API server evaluates policies on the object as it is, without the escapes that rules of a CRD need for reserved words.
fn evaluate(rules: &Value, new: &Value, old: Option<&Value>) -> Vec<(bool, String)> {
    let mut context = Context::default().with_all();
    context.add_variable("object", to_value(new).unwrap()).unwrap();
    context.add_variable("oldObject", to_value(old.unwrap_or(&Value::Null)).unwrap()).unwrap();
    let holds = |rule: &Value| {
        let text = rule["expression"].as_str().unwrap();
        let program = Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        program.execute(&context).unwrap_or_else(|error| panic!("{text}: {error}")) == Cel::Bool(true)
    };
    let message = |rule: &Value| rule["message"].as_str().unwrap_or_default().to_owned();
    rules.as_array().unwrap().iter().map(|rule| (holds(rule), message(rule))).collect()
}

/// What a policy says about a write: the messages of the rules that refuse it.
fn verdict(policy: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = &find("ValidatingAdmissionPolicy", policy)["spec"];
    if evaluate(&spec["matchConditions"], new, old).iter().any(|(holds, _)| !holds) {
        return Vec::new();
    }
    let found = evaluate(&spec["validations"], new, old);
    found.into_iter().filter(|(holds, _)| !holds).map(|(_, message)| message).collect()
}

fn object(spec: &Value) -> Value {
    json!({"metadata": {"name": "it", "namespace": "team-a"}, "spec": spec})
}

fn writes_to(namespace: &str) -> Value {
    object(&json!({"module": "vpc", "writeConnectionSecretToRef": {"name": "out", "namespace": namespace}}))
}

#[test]
fn c3_the_api_server_refuses_a_connection_secret_of_another_namespace() {
    let policy = "connection-secrets";
    let refused = ["spec.writeConnectionSecretToRef must be in the namespace of the object"];
    assert!(verdict(policy, &object(&json!({"module": "vpc"})), None).is_empty());
    assert!(verdict(policy, &writes_to("team-a"), None).is_empty());
    assert_eq!(verdict(policy, &writes_to("team-b"), None), refused);
    assert_eq!(verdict(policy, &writes_to("team-b"), Some(&writes_to("team-a"))), refused);
    // One that is older than the policy can still be annotated, and can lose its finalizer.
    assert!(verdict(policy, &writes_to("team-b"), Some(&writes_to("team-b"))).is_empty());
    let mut going = writes_to("team-b");
    going["metadata"]["deletionTimestamp"] = json!("2026-11-01T10:00:00Z");
    assert!(verdict(policy, &going, Some(&writes_to("team-a"))).is_empty());
}

/// A field whose value refers to a namespace.
type Field<'a> = &'a dyn Fn(&str) -> Value;

#[test]
fn a_namespace_that_is_told_to_keep_to_itself_names_no_other() {
    let to = |namespace: &str| json!({"name": "it", "namespace": namespace});
    let in_input = |namespace: &str| json!([{"input": "a", "key": "k", "secretRef": to(namespace)}]);
    let fields: [(&str, Field<'_>); 8] = [
        ("templateRef", &to),
        ("vpcTemplateRef", &to),
        ("workspaceTemplateRef", &to),
        ("additionalFargateProfiles", &|it| json!([{"name": "p", "workspaceTemplateRef": to(it)}])),
        ("waitForSecrets", &|it| json!([to(it)])),
        ("waitForWorkspaces", &|it| json!([to(it)])),
        ("inputsFrom", &in_input),
        ("namespaces", &|it| json!({"from": if it == "team-a" { "Same" } else { "All" }})),
    ];
    for (field, value) in fields {
        let with = |namespace: &str| object(&json!({field: value(namespace)}));
        assert!(verdict("references", &with("team-a"), None).is_empty(), "{field}");
        let refused = verdict("references", &with("team-b"), None);
        assert_eq!(refused.len(), 1, "{field}: {refused:?}");
        assert!(verdict("references", &with("team-b"), Some(&with("team-b"))).is_empty(), "{field}");
    }
    // What is left out is in the own namespace.
    let short = object(
        &json!({"templateRef": {"name": "it"}, "waitForWorkspaces": [{"name": "it", "namespace": ""}]}),
    );
    assert!(verdict("references", &short, None).is_empty());
}

#[test]
fn the_policies_fail_closed_and_are_bound() {
    for (name, label) in [("connection-secrets", None), ("references", Some("own-namespace"))] {
        let policy = find("ValidatingAdmissionPolicy", name);
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let binding = find("ValidatingAdmissionPolicyBinding", name);
        assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
        let selector = &binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"];
        assert_eq!(selector["capt.x-k8s.io/references"].as_str(), label);
    }
    assert_eq!(policies().len(), 4);
}
