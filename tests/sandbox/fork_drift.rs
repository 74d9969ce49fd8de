//! Forks are kept in their desired state after changes to them or to their dependencies.

use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{GROUP, deployment_object, name, service_object},
};

fn env_value(fork: &Value, variable: &str) -> String {
    let all =
        fork["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let one = all.into_iter().find(|it| it["name"] == variable).unwrap_or_default();
    one["value"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_fork_is_told_when_the_address_of_its_neighbour_becomes_another_one() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_service("web").await;
    let from = json!({"fork": {"forkOf": {"name": "cart"}, "expression": "{{.Service.Host}}"}});
    let spec = json!({"forks": [
        {"forkOf": {"name": "cart"}},
        {"forkOf": {"name": "web"}, "customizations": {"env": [{"name": "CART", "valueFrom": from}]}},
    ]});
    shop.create_sandbox("pr-1", spec).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let fork = sandbox::fork::fork_name("shop", "web", "pr-1");
    let before = env_value(&shop.get("Deployment", &fork).await.unwrap(), "CART");
    assert!(before.starts_with("cart-pr-1-"), "{before}");
    // Of several Services the first by name leads to it.
    let mut other = service_object("cart");
    other["metadata"]["name"] = json!("basket");
    shop.create_object("Service", other).await.unwrap();
    let is_told = |it: &Value| env_value(it, "CART").starts_with("basket-pr-1-");
    shop.wait_until("Deployment", &fork, "told of the new address", is_told).await;
    shop.delete("Service", "basket").await;
    shop.wait_until("Deployment", &fork, "told of the old address", |it| env_value(it, "CART") == before)
        .await;
}

#[tokio::test]
async fn a_fork_without_our_labels_is_put_right_and_so_is_its_service() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let fork = shop.forks("pr-1").await.remove(0);
    let service = shop.fork_services("pr-1").await.remove(0);
    for (kind, before) in [("Deployment", &fork), ("Service", &service)] {
        let none = json!({"metadata": {"labels": {(format!("{GROUP}/sandbox")): null, (format!("{GROUP}/fork")): null}}});
        shop.merge_patch(kind, name(before), none).await.unwrap();
        let is_right = |it: &Value| it["metadata"]["labels"] == before["metadata"]["labels"];
        let now = shop.wait_until(kind, name(before), "labelled again", is_right).await;
        assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"], "it is the same one");
        shop.wait_for_condition("pr-1", "Accepted", "True", "Accepted").await;
    }
    world.stop_controllers().await;
}

#[tokio::test]
async fn what_people_should_know_of_a_fork_is_told_also_if_its_sandbox_waited_first() {
    let world = SandboxHarness::start().await;
    let shop = world.create_namespace().await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "BaselineResolved", "False", "BaselineNotFound").await;
    let mut cart = deployment_object("cart");
    cart["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "migrate", "image": "repo/migrate:1"}]);
    shop.create_object("Deployment", cart).await.unwrap();
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    shop.wait_for("its migrations are told", async || {
        let all = shop.list("Event", "").await;
        all.iter().any(|it| it["note"].as_str().is_some_and(|it| it.contains("migrate")))
    })
    .await;
}
