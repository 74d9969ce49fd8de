//! F6: forks follow their baselines, or report that they do not.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_clock::TestClock,
    test_namespace::{TestNamespace, name},
};

/// The clock of the controllers that follow a baseline.
static CLOCK: TestClock = TestClock::new();

fn image_patch(tag: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": format!("repo/cart:{tag}")}]}}}})
}

async fn strategic_patch(shop: &TestNamespace, patch: Value) {
    let params = kube::api::PatchParams::default();
    shop.api("Deployment").patch("cart", &params, &kube::api::Patch::Strategic(patch)).await.unwrap();
}

fn container_image(fork: &Value) -> String {
    fork["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn f6_a_fork_follows_its_baseline_and_a_scaled_baseline_restarts_nobody() {
    let mut world = SandboxHarness::idle().await;
    world.clock = || CLOCK.now();
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    let spec = json!({"forks": [{"forkOf": {"name": "cart"}, "customizations": {"env": [{"name": "X", "value": "1"}]}}]});
    shop.create_sandbox("pr-1", spec).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let fork = shop.forks("pr-1").await.remove(0);
    let replica_sets = async || shop.list("ReplicaSet", "sandbox.capt.x-k8s.io/sandbox=pr-1").await.len();

    for replicas in [5, 1, 3] {
        shop.merge_patch("Deployment", "cart", json!({"spec": {"replicas": replicas}})).await.unwrap();
        let is = |it: &Value| it["status"]["availableReplicas"] == replicas;
        shop.wait_until("Deployment", "cart", "scaled", is).await;
    }
    world.settle().await;
    let now = shop.get("Deployment", name(&fork)).await.unwrap();
    assert_eq!(now["metadata"]["resourceVersion"], fork["metadata"]["resourceVersion"]);
    assert_eq!(replica_sets().await, 1);

    // Three changes within five seconds are followed once, and without being asked again.
    CLOCK.stop_after(SignedDuration::ZERO);
    for tag in ["v2", "v3", "v4"] {
        strategic_patch(&shop, image_patch(tag)).await;
    }
    let is_behind = |it: &Value| it["status"]["forks"][0]["upToDate"] == false;
    shop.wait_until("Sandbox", "pr-1", "behind its baseline", is_behind).await;
    let now = shop.get("Deployment", name(&fork)).await.unwrap();
    assert_eq!(
        (container_image(&now), &now["metadata"]["generation"]),
        ("repo/cart:v1".to_owned(), &json!(1))
    );
    CLOCK.stop_after(SignedDuration::from_secs(6));
    shop.wait_until("Deployment", name(&fork), "the new one", |it| container_image(it) == "repo/cart:v4")
        .await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let is_current = |it: &Value| it["status"]["forks"][0]["upToDate"] == true;
    shop.wait_until("Sandbox", "pr-1", "up to date", is_current).await;
    assert_eq!(shop.get("Deployment", name(&fork)).await.unwrap()["metadata"]["generation"], 2, "once");
    shop.wait_for_event("pr-1", "BaselineChanged").await;
}

#[tokio::test]
async fn f6_a_pinned_fork_stays_and_says_that_its_baseline_moved() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let spec =
        json!({"forks": [{"forkOf": {"name": "cart"}, "baselineUpdatePolicy": "Pin"}], "description": "a"});
    shop.create_sandbox("pr-1", spec).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let fork = shop.forks("pr-1").await.remove(0);
    strategic_patch(&shop, image_patch("v2")).await;
    let is_behind = |it: &Value| it["status"]["forks"][0]["upToDate"] == false;
    shop.wait_until("Sandbox", "pr-1", "behind its baseline", is_behind).await;
    // Another word of the spec is no reason to leave the pinned baseline.
    shop.merge_patch("Sandbox", "pr-1", json!({"spec": {"description": "b"}})).await.unwrap();
    shop.wait_until("Sandbox", "pr-1", "looked at", super::test_namespace::is_current).await;
    world.settle().await;
    let now = shop.get("Deployment", name(&fork)).await.unwrap();
    assert_eq!(
        (container_image(&now), &now["metadata"]["generation"]),
        ("repo/cart:v1".to_owned(), &json!(1))
    );
    assert_eq!(shop.get("Sandbox", "pr-1").await.unwrap()["status"]["forks"][0]["upToDate"], false);
}

#[tokio::test]
async fn f6_what_somebody_makes_of_a_pinned_fork_is_undone() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_sandbox(
        "pr-1",
        json!({"forks": [{"forkOf": {"name": "cart"}, "baselineUpdatePolicy": "Pin"}]}),
    )
    .await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let fork = shop.forks("pr-1").await.remove(0);
    strategic_patch(&shop, image_patch("v2")).await;
    let is_behind = |it: &Value| it["status"]["forks"][0]["upToDate"] == false;
    shop.wait_until("Sandbox", "pr-1", "behind its baseline", is_behind).await;
    // Also by a controller that knows nothing of what was before.
    for is_restarted in [false, true] {
        if is_restarted {
            world.stop_controllers().await;
        }
        let patch = kube::api::Patch::Strategic(image_patch("theirs"));
        let params = kube::api::PatchParams { field_manager: Some("hand".to_owned()), ..Default::default() };
        let edited = shop.api("Deployment").patch(name(&fork), &params, &patch).await.unwrap();
        assert_eq!(edited.metadata.generation, Some(if is_restarted { 4 } else { 2 }));
        if is_restarted {
            world.start_controllers();
        }
        let is_back = |it: &Value| container_image(it) == "repo/cart:v1";
        shop.wait_until("Deployment", name(&fork), "as it was pinned", is_back).await;
        world.settle().await;
    }
    let now = shop.get("Deployment", name(&fork)).await.unwrap();
    assert_eq!(
        (container_image(&now), &now["metadata"]["generation"]),
        ("repo/cart:v1".to_owned(), &json!(5))
    );
    assert!(is_behind(&shop.get("Sandbox", "pr-1").await.unwrap()));
    world.stop_controllers().await;
}

#[tokio::test]
async fn only_the_sandboxes_of_a_baseline_are_woken_by_it() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_service("web").await;
    shop.create_fork("of-cart", "cart").await;
    shop.create_fork("of-web", "web").await;
    shop.wait_for_condition("of-cart", "ForksReady", "True", "Ready").await;
    shop.wait_for_condition("of-web", "ForksReady", "True", "Ready").await;
    world.settle().await;
    let hash = |it: &Value| it["metadata"]["annotations"]["sandbox.capt.x-k8s.io/source-hash"].clone();
    let mut log = Vec::new();
    for version in 2..10 {
        let before = world.requests().len();
        let fork = shop.forks("of-cart").await.remove(0);
        strategic_patch(&shop, image_patch(&format!("v{version}"))).await;
        shop.wait_until("Deployment", name(&fork), "recreated", |it| hash(it) != hash(&fork)).await;
        world.settle().await;
        log = world.requests().split_off(before);
        if !world.has_watch_restart_since(before) {
            break;
        }
    }
    let asked = |name: &str| log.iter().filter(|it| it.resource == "deployments" && it.name == name).count();
    assert!(asked("cart") > 0, "its own baseline was looked at");
    assert_eq!(asked("web"), 0, "and nobody else's");
}
