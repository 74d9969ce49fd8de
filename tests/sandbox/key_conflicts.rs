//! Of two objects with the same routing key the older one owns it; the other one gets it when the owner is deleted.

use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{condition_message, fork_spec},
};

fn spec_with_key() -> Value {
    let mut spec = fork_spec("cart", &json!({}));
    spec["routingKey"] = json!("abc");
    spec
}

#[tokio::test]
async fn a_key_is_free_when_the_forks_of_its_owner_are_gone_whoever_else_holds_the_owner() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let held = json!({"name": "a-first", "finalizers": ["example.com/held"]});
    shop.create_object("Sandbox", json!({"metadata": held, "spec": spec_with_key()})).await.unwrap();
    shop.wait_for_condition("a-first", "ForksReady", "True", "Ready").await;
    shop.create_sandbox("b-second", spec_with_key()).await;
    shop.wait_for_condition("b-second", "Accepted", "False", "RoutingKeyConflict").await;
    shop.delete("Sandbox", "a-first").await;
    shop.wait_for_condition("b-second", "ForksReady", "True", "Ready").await;
    assert!(shop.get("Sandbox", "a-first").await.is_some(), "another finalizer still holds it");
    assert!(shop.forks("a-first").await.is_empty());
}

#[tokio::test]
async fn a_sandbox_that_is_younger_than_a_group_of_its_key_does_not_get_it() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let spec = json!({"match": {"label": {"key": "feature", "value": "x"}}, "routingKey": "abc"});
    // The first by name has it if both are made within a second.
    shop.create_object("RouteGroup", json!({"metadata": {"name": "a-group"}, "spec": spec})).await.unwrap();
    // Sandboxes learn of it by the table of routes, and so does it.
    let is_seen = |it: &Value| it["status"]["routingKey"] == "abc";
    shop.wait_until("RouteGroup", "a-group", "in the table", is_seen).await;
    shop.create_sandbox("pr-1", spec_with_key()).await;
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "RoutingKeyConflict").await;
    assert!(condition_message(&sandbox, "Accepted").contains("RouteGroup shop/a-group"), "{sandbox}");
    assert!(shop.forks("pr-1").await.is_empty());
    shop.delete("RouteGroup", "a-group").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
}
