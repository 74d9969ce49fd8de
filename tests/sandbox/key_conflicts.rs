//! Of two objects that ask for one key the older has it, and leaves it to the other when it goes.

use serde_json::{Value, json};

use super::{
    life::with_cart,
    shop::{forking, message},
    world::World,
};

fn with_key() -> Value {
    let mut spec = forking("cart", &json!({}));
    spec["routingKey"] = json!("abc");
    spec
}

#[tokio::test]
async fn a_key_is_free_when_the_forks_of_its_owner_are_gone_whoever_else_holds_the_owner() {
    let world = World::start().await;
    let shop = with_cart(&world).await;
    let held = json!({"name": "a-first", "finalizers": ["example.com/held"]});
    shop.make("Sandbox", json!({"metadata": held, "spec": with_key()})).await.unwrap();
    shop.until_said("a-first", "ForksReady", "True", "Ready").await;
    shop.sandbox("b-second", with_key()).await;
    shop.until_said("b-second", "Accepted", "False", "RoutingKeyConflict").await;
    shop.delete("Sandbox", "a-first").await;
    shop.until_said("b-second", "ForksReady", "True", "Ready").await;
    assert!(shop.get("Sandbox", "a-first").await.is_some(), "somebody else still holds it");
    assert!(shop.forks("a-first").await.is_empty());
}

#[tokio::test]
async fn a_sandbox_that_is_younger_than_a_group_of_its_key_does_not_get_it() {
    let world = World::start().await;
    let shop = with_cart(&world).await;
    let spec = json!({"match": {"label": {"key": "feature", "value": "x"}}, "routingKey": "abc"});
    // The first by name has it if both are made within a second.
    shop.make("RouteGroup", json!({"metadata": {"name": "a-group"}, "spec": spec})).await.unwrap();
    // Sandboxes learn of it by the table of routes, and so does it.
    let is_seen = |it: &Value| it["status"]["routingKey"] == "abc";
    shop.until("RouteGroup", "a-group", "in the table", is_seen).await;
    shop.sandbox("pr-1", with_key()).await;
    let sandbox = shop.until_said("pr-1", "Accepted", "False", "RoutingKeyConflict").await;
    assert!(message(&sandbox, "Accepted").contains("RouteGroup shop/a-group"), "{sandbox}");
    assert!(shop.forks("pr-1").await.is_empty());
    shop.delete("RouteGroup", "a-group").await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
}
