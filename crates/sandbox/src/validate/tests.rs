//! Verdicts that only the controller gives. What an API server refuses too is in `tests/bad_input`, asked of both.

use capt_kinds::sandbox::{Patch, PatchType, Sandbox};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn sandbox(spec: &Value) -> Sandbox {
    serde_json::from_value(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": "pr-1", "namespace": "shop"}, "spec": spec
    }))
    .unwrap()
}

#[rstest]
#[case(json!({"forks": [{"forkOf": {"name": "cart", "namespace": "other"}}]}))]
#[case(json!({"local": [{"name": "l", "from": {"name": "cart", "namespace": "other"}, "mappings": [{"port": 80, "toLocal": "localhost:3000"}]}]}))]
#[case(json!({"virtual": [{"name": "v", "workload": {"name": "cart", "namespace": "other"}}]}))]
fn b5_a_baseline_of_another_namespace_is_refused(#[case] spec: Value) {
    let refusal = validate_sandbox(&sandbox(&spec)).unwrap_err();
    assert_eq!(refusal.reason, "CrossNamespaceFork");
    assert!(refusal.message.contains("other") && refusal.message.contains("RouteGroup"), "{refusal}");
}

#[test]
fn its_own_namespace_may_be_named() {
    let spec = json!({"forks": [{"forkOf": {"name": "cart", "namespace": "shop"}}]});
    assert_eq!(validate_sandbox(&sandbox(&spec)), Ok(()));
}

#[rstest]
#[case("frontend.shop.svc:8080")]
#[case("http://example.com")]
#[case("tcp://cart.shop.svc:80")]
fn b5_an_endpoint_that_is_no_service_is_refused(#[case] target: &str) {
    let spec = json!({
        "forks": [{"forkOf": {"name": "cart"}}],
        "endpoints": [{"name": "web", "target": target}]
    });
    let refusal = validate_sandbox(&sandbox(&spec)).unwrap_err();
    assert_eq!(refusal.reason, "InvalidTarget");
    assert!(refusal.message.contains("endpoints[0].target") && refusal.message.contains(target), "{refusal}");
}

#[test]
fn b5_a_key_that_differs_from_the_one_in_use_is_refused() {
    let mut sandbox = sandbox(&json!({"forks": [{"forkOf": {"name": "cart"}}], "routingKey": "mine"}));
    sandbox.status = Some(serde_json::from_value(json!({"routingKey": "theirs"})).unwrap());
    let refusal = validate_sandbox(&sandbox).unwrap_err();
    assert!(refusal.message.contains("routingKey cannot be changed"), "{refusal}");
}

#[test]
fn a_label_expression_that_is_none_is_refused() {
    let spec = json!({"forks": [{"forkOf": {"name": "cart"}, "customizations": {"preservedLabels": ["("]}}]});
    let refusal = validate_sandbox(&sandbox(&spec)).unwrap_err();
    assert_eq!(refusal.reason, "InvalidSpec");
    assert!(refusal.message.contains("preservedLabels[0]"), "{refusal}");
}

#[rstest]
#[case(PatchType::Strategic, Ok(json!([])), "must be an object")]
#[case(PatchType::Merge, Ok(json!("spec")), "must be an object")]
#[case(PatchType::Json, Ok(json!({})), "must be a list")]
#[case(PatchType::Strategic, Err("found a tab".to_owned()), "not YAML: found a tab")]
fn b5_a_patch_of_the_wrong_shape_is_refused(
    #[case] type_: PatchType,
    #[case] read: Result<Value, String>,
    #[case] words: &str,
) {
    let refusal = check_patch_shape(&Patch { type_, value: "x".into() }, read).unwrap_err();
    assert_eq!(refusal.reason, "InvalidPatch");
    assert!(refusal.message.contains(words), "{refusal}");
}

#[rstest]
#[case("/metadata/name", json!("other"), "metadata.name")]
#[case("/metadata/namespace", json!("other"), "metadata.namespace")]
#[case("/spec/selector/matchLabels/app", json!("other"), "spec.selector")]
#[case("/spec/template/metadata/labels/sandbox.capt.x-k8s.io~1fork", json!("mine"), "sandbox.capt.x-k8s.io")]
#[case("/metadata/labels/sandbox.capt.x-k8s.io~1sandbox", json!("mine"), "sandbox.capt.x-k8s.io")]
fn b5_a_patch_that_touches_what_is_not_its_own_is_refused(
    #[case] at: &str,
    #[case] value: Value,
    #[case] words: &str,
) {
    let baseline = json!({
        "metadata": {"name": "cart", "namespace": "shop", "labels": {"sandbox.capt.x-k8s.io/sandbox": "x"}},
        "spec": {
            "selector": {"matchLabels": {"app": "cart"}},
            "template": {"metadata": {"labels": {"app": "cart", "sandbox.capt.x-k8s.io/fork": "x"}}, "spec": {"containers": []}}
        }
    });
    let mut patched = baseline.clone();
    *patched.pointer_mut(at).unwrap() = value;
    let refusal = check_patched_baseline(&baseline, &patched).unwrap_err();
    assert_eq!(refusal.reason, "InvalidPatch");
    assert!(refusal.message.contains(words), "{refusal}");
    let mut fine = baseline.clone();
    fine["spec"]["template"]["spec"]["containers"] = json!([{"name": "app"}]);
    assert_eq!(check_patched_baseline(&baseline, &fine), Ok(()));
}
