//! F7: the patches of forks mean what `kubectl patch --dry-run=server` says they mean.

use std::process::Stdio;

use embedded_kube::fault_injection::RequestRecord;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{fork_spec, name},
};

/// Patches of each kind, as people write them.
fn patch_cases() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "strategic",
            "spec: {template: {spec: {containers: [{name: app, resources: {limits: {cpu: \"2\"}}}]}}}",
        ),
        ("strategic", "spec: {template: {spec: {containers: [{name: sidecar, image: \"repo/side:1\"}]}}}"),
        (
            "strategic",
            "spec: {template: {spec: {containers: [{name: app, env: [{name: LOG, $patch: delete}]}]}}}",
        ),
        (
            "strategic",
            "spec: {template: {spec: {containers: [{name: app, ports: [{containerPort: 9090, name: admin}]}]}}}",
        ),
        (
            "strategic",
            "spec: {template: {spec: {tolerations: [{key: a, operator: Exists}], nodeSelector: {disk: ssd}}}}",
        ),
        (
            "merge",
            "{\"spec\": {\"template\": {\"spec\": {\"terminationGracePeriodSeconds\": 5, \"dnsPolicy\": null}}}}",
        ),
        ("merge", "spec: {minReadySeconds: 1, template: {metadata: {annotations: {a: b}}}}"),
        (
            "json",
            "[{\"op\": \"replace\", \"path\": \"/spec/template/spec/containers/0/image\", \"value\": \"repo/x:1\"}]",
        ),
        ("json", "- {op: add, path: /spec/template/spec/volumes, value: [{name: tmp, emptyDir: {}}]}"),
    ]
}

/// What a real kubectl says that the patch gives.
#[expect(clippy::disallowed_methods, reason = "a person types this")]
async fn kubectl_patch(kubeconfig: &str, kind: &str, patch: &str) -> Value {
    let arguments = [
        "-n",
        "shop",
        "patch",
        "deployment",
        "cart",
        "--dry-run=server",
        "-o",
        "json",
        "--type",
        kind,
        "-p",
        patch,
    ];
    let output = tokio::process::Command::new("kubectl")
        .args(["--kubeconfig", kubeconfig])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{patch}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a fork keeps of its baseline's pods, without what it has of its own.
fn comparable_pod_spec(deployment: &Value) -> Value {
    let mut pod = deployment["spec"]["template"]["spec"].clone();
    for container in pod["containers"].as_array_mut().unwrap() {
        let env = container["env"].as_array().cloned().unwrap_or_default();
        let own = |it: &Value| {
            let name = it["name"].as_str().unwrap_or_default();
            name.starts_with("SANDBOX_") || name.starts_with("SIGNADOT_")
        };
        let rest: Vec<Value> = env.into_iter().filter(|it| !own(it)).collect();
        let container = container.as_object_mut().unwrap();
        container.shift_remove("env");
        if !rest.is_empty() {
            container.insert("env".to_owned(), Value::Array(rest));
        }
    }
    pod
}

#[tokio::test]
async fn f7_a_patched_fork_is_what_kubectl_says_the_patch_gives() {
    let mut world = SandboxHarness::idle_listening().await;
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    let kubeconfig = world.write_kubeconfig();
    for (index, (kind, patch)) in patch_cases().into_iter().enumerate() {
        let sandbox = format!("pr-{index}");
        let custom = json!({"patch": {"type": kind, "value": patch}});
        shop.create_sandbox(&sandbox, fork_spec("cart", &custom)).await;
        shop.wait_for_condition(&sandbox, "Accepted", "True", "Accepted").await;
        let expected = kubectl_patch(&kubeconfig, kind, &yaml_to_json(patch)).await;
        let found = shop.forks(&sandbox).await.remove(0);
        assert_eq!(comparable_pod_spec(&found), comparable_pod_spec(&expected), "{kind} {patch}");
        assert_eq!(found["spec"]["minReadySeconds"], expected["spec"]["minReadySeconds"], "{patch}");
        assert_ne!(name(&found), "cart");
    }
    let baseline = shop.get("Deployment", "cart").await.unwrap();
    assert_eq!(baseline["metadata"]["generation"], 1, "nothing was written");
    world.stop_controllers().await;
}

/// kubectl takes YAML too; it is the same text for both.
fn yaml_to_json(patch: &str) -> String {
    serde_saphyr::from_str::<Value>(patch).unwrap().to_string()
}

#[tokio::test]
async fn a_patch_is_rehearsed_once_for_one_baseline() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let custom = json!({"patch": {"value": "spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}"}});
    shop.create_sandbox("pr-1", fork_spec("cart", &custom)).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    for replicas in [3, 1] {
        shop.merge_patch("Deployment", "cart", json!({"spec": {"replicas": replicas}})).await.unwrap();
        shop.wait_until("Deployment", "cart", "scaled", |it| it["status"]["availableReplicas"] == replicas)
            .await;
    }
    world.settle().await;
    let is_rehearsal = |it: &&RequestRecord| it.dry_run && it.name == "cart";
    assert_eq!(world.requests().iter().filter(is_rehearsal).count(), 1);
    let params = PatchParams::default();
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "repo/cart:v2"}]}}}});
    shop.api("Deployment").patch("cart", &params, &Patch::Strategic(image)).await.unwrap();
    shop.wait_for("the fork has both", async || {
        let fork = shop.forks("pr-1").await.remove(0);
        let pod = &fork["spec"]["template"]["spec"];
        pod["containers"][0]["image"] == "repo/cart:v2" && pod["terminationGracePeriodSeconds"] == 5
    })
    .await;
}
