//! When the API server refuses a fork, its message is reported and nothing is created.

use http::Method;
use serde_json::{Value, json};

use super::{
    fault_injection::FaultEffect,
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{TestNamespace, condition, condition_message, fork_spec},
};

/// More than the limit that the baseline has.
fn spec_above_limit() -> Value {
    json!({"resources": [{"requests": {"cpu": "4"}}]})
}

/// A shop whose cart may have two processors.
async fn namespace_with_limit(world: &SandboxHarness) -> TestNamespace {
    let shop = namespace_with_cart(world).await;
    shop.create_service("web").await;
    let container = json!({"name": "app", "resources": {"limits": {"cpu": "2"}}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let params = kube::api::PatchParams::default();
    shop.api("Deployment").patch("cart", &params, &kube::api::Patch::Strategic(patch)).await.unwrap();
    shop
}

#[tokio::test]
async fn f8_a_fork_that_the_api_server_refuses_is_told_and_nothing_is_made() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_limit(&world).await;
    let mut spec = json!({"forks": [{"forkOf": {"name": "web"}}]});
    spec["forks"].as_array_mut().unwrap().push(fork_spec("cart", &spec_above_limit())["forks"][0].clone());
    shop.create_sandbox("pr-1", spec).await;
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "RefusedByServer").await;
    let text = condition_message(&sandbox, "Accepted");
    assert!(text.contains("must be less than or equal to cpu limit"), "{text}");
    assert_eq!(sandbox["status"]["phase"], "Failed");
    assert!(shop.forks("pr-1").await.is_empty(), "not even the fork that is right");
    assert!(shop.fork_services("pr-1").await.is_empty());

    // One that is edited into it says so too, and keeps what it has.
    shop.create_fork("pr-2", "cart").await;
    shop.wait_for_condition("pr-2", "ForksReady", "True", "Ready").await;
    shop.merge_patch("Sandbox", "pr-2", json!({"spec": fork_spec("cart", &spec_above_limit())}))
        .await
        .unwrap();
    let sandbox = shop.wait_for_condition("pr-2", "Accepted", "False", "RefusedByServer").await;
    assert_eq!(condition(&sandbox, "Ready").0, "False");
    assert_eq!((shop.forks("pr-2").await.len(), shop.fork_services("pr-2").await.len()), (1, 1));
    world.stop_controllers().await;
}

#[tokio::test]
async fn f8_a_quota_is_told_and_a_sandbox_waits_for_room_in_it() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let full = |method: &Method, path: &str| method == Method::PATCH && path.contains("/deployments/");
    world.faults.add(full, FaultEffect::Answer(403), u32::MAX);
    shop.create_fork("pr-1", "cart").await;
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "Forbidden").await;
    assert_eq!(sandbox["status"]["phase"], "Pending", "capacity may become available");
    assert!(
        condition_message(&sandbox, "Accepted").contains("trouble on request"),
        "{}",
        condition_message(&sandbox, "Accepted")
    );
    assert!(shop.fork_services("pr-1").await.is_empty());
    world.faults.clear();
    shop.merge_patch("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
}

#[tokio::test]
async fn f8_two_sandboxes_whose_local_workloads_would_have_one_name_are_told_apart() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let local = |name: &str| json!({"local": [{"name": name, "from": {"name": "cart"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]});
    shop.create_sandbox("pr", local("1-cart")).await;
    shop.wait_for_condition("pr", "LocalsConnected", "False", "NotConnected").await;
    shop.create_sandbox("pr-1", local("cart")).await;
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "NameTaken").await;
    assert!(
        condition_message(&sandbox, "Accepted").contains("pr-1-cart"),
        "{}",
        condition_message(&sandbox, "Accepted")
    );
    let made = shop.get("LocalWorkload", "pr-1-cart").await.unwrap();
    assert_eq!(made["spec"]["sandboxRef"]["name"], "pr");
    shop.delete("Sandbox", "pr").await;
    shop.wait_for_condition("pr-1", "LocalsConnected", "False", "NotConnected").await;
    world.stop_controllers().await;
}

/// Which claims only one pod may have is decided elsewhere, and the embedded API has no claims; but it is asked for the right ones.
#[tokio::test]
async fn f8_a_volume_that_a_patch_adds_is_looked_at_like_any_other() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let patch =
        "spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: added}}]}}}";
    shop.create_sandbox("pr-1", fork_spec("cart", &json!({"patch": {"value": patch}}))).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let asked =
        world.requests().iter().any(|it| it.resource == "persistentvolumeclaims" && it.name == "added");
    assert!(asked, "the claim that the patch adds was not read");
}
