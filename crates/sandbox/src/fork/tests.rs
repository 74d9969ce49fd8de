//! What cannot be forked. What can is in `tests/fidelity.rs`.

use rstest::rstest;

use super::*;

fn baseline() -> Value {
    json!({
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "cart"}},
            "spec": {
                "containers": [{"name": "app", "image": "a"}, {"name": "sidecar", "image": "b"}],
                "initContainers": [{"name": "migrate", "image": "c"}]
            }
        }}
    })
}

fn forked(baseline: &Value, customizations: &Value) -> Result<ForkedDeployment, Rejection> {
    let sandbox: Sandbox = serde_json::from_value(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": "pr-1", "namespace": "shop", "uid": "u"},
        "spec": {"forks": [{"forkOf": {"name": "cart"}, "customizations": customizations}]}
    }))
    .unwrap();
    let order = ForkRequest {
        sandbox: &sandbox,
        fork: &sandbox.spec.forks[0],
        key: "key",
        route_server: None,
        addresses: &BTreeMap::from([("cart".to_owned(), ForkAddress { host: "h".into(), port: 80 })]),
        extra_labels: &Labels::new(),
        source_hash: "hash",
    };
    build_fork(baseline, &order)
}

#[rstest]
#[case(json!({"images": [{"image": "x"}]}), "ContainerRequired", "images[0].container: one of [app, sidecar]")]
#[case(json!({"env": [{"name": "A", "value": "x"}]}), "ContainerRequired", "env[0].container: one of [app, sidecar]")]
#[case(json!({"resources": [{"requests": {"cpu": "1"}}]}), "ContainerRequired", "resources[0].container")]
#[case(json!({"images": [{"container": "web", "image": "x"}]}), "ContainerNotFound", "\"web\" is not one of [app, sidecar, migrate]")]
#[case(json!({"env": [{"container": "web", "name": "A", "operation": "delete"}]}), "ContainerNotFound", "env[0].container")]
#[case(json!({"preservedLabels": ["["]}), "InvalidSpec", "preservedLabels")]
#[case(json!({"env": [{"container": "app", "name": "A", "valueFrom": {"fork": {"forkOf": {"name": "other"}, "expression": "x"}}}]}), "InvalidExpression", "other has no Service")]
#[case(json!({"env": [{"container": "app", "name": "A", "valueFrom": {"fork": {"forkOf": {"name": "cart"}, "expression": "{{.Pod.Name}}"}}}]}), "InvalidExpression", ".Pod.Name")]
#[case(json!({"env": [{"container": "app", "name": "A", "valueFrom": {"fork": {"forkOf": {"name": "cart"}, "expression": "{{.Service.Host"}}}]}), "InvalidExpression", "not closed")]
fn b5_what_cannot_be_made_has_its_reason(#[case] custom: Value, #[case] reason: &str, #[case] words: &str) {
    let refusal = forked(&baseline(), &custom).unwrap_err();
    assert_eq!(refusal.reason, reason);
    assert!(refusal.message.contains(words), "{refusal}");
}

#[test]
fn b5_a_variable_that_is_not_there_is_deleted_with_a_note() {
    let made =
        forked(&baseline(), &json!({"env": [{"container": "app", "name": "GONE", "operation": "delete"}]}))
            .unwrap();
    assert!(made.notes.iter().any(|it| it.contains("GONE")), "{:?}", made.notes);
}

#[rstest]
#[case("/metadata")]
#[case("/spec/template/metadata")]
fn b5_a_fork_is_not_forked_again(#[case] place: &str) {
    let mut fork = baseline();
    fork.pointer_mut(place).unwrap()["labels"] = json!({"sandbox.capt.x-k8s.io/fork": "cart-pr-2-aaaa"});
    assert_eq!(forked(&fork, &json!({})).unwrap_err().reason, "BaselineIsFork");
}

#[test]
fn init_containers_and_hooks_are_told_of() {
    let mut workload = baseline();
    workload["spec"]["template"]["spec"]["containers"][1]["lifecycle"] = json!({"postStart": {}});
    let made = forked(&workload, &json!({})).unwrap();
    assert!(made.notes[0].contains("migrate") && made.notes[1].contains("sidecar"), "{:?}", made.notes);
}

#[rstest]
#[case(json!(null))]
#[case(json!([]))]
#[case(json!({"spec": 1}))]
#[case(json!({"spec": {"template": []}}))]
#[case(json!({"spec": {"template": {"spec": {"containers": {"a": 1}, "initContainers": [1, null, "x"]}}}}))]
#[case(json!({"spec": {"template": {"spec": {"containers": [{"env": {}, "ports": 1, "resources": []}]}}}}))]
fn whatever_a_baseline_looks_like_nothing_breaks(#[case] odd: Value) {
    let custom = json!({"env": [{"name": "A", "value": "x"}], "resources": [{"requests": {"cpu": 1}}]});
    match forked(&odd, &custom) {
        Ok(made) => assert_eq!(made.object["spec"]["replicas"], 1),
        Err(refusal) => assert_eq!(refusal.reason, "ContainerNotFound"),
    }
}
