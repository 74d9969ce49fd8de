//! Forks are kept as they shall be, whatever changes around them and whoever changes them.

use serde_json::{Value, json};

use super::{
    life::with_cart,
    shop::{GROUP, deployment, name, service},
    world::World,
};

fn env(fork: &Value, variable: &str) -> String {
    let all =
        fork["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let one = all.into_iter().find(|it| it["name"] == variable).unwrap_or_default();
    one["value"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_fork_is_told_when_the_address_of_its_neighbour_becomes_another_one() {
    let world = World::start().await;
    let shop = with_cart(&world).await;
    shop.service("web").await;
    let from = json!({"fork": {"forkOf": {"name": "cart"}, "expression": "{{.Service.Host}}"}});
    let spec = json!({"forks": [
        {"forkOf": {"name": "cart"}},
        {"forkOf": {"name": "web"}, "customizations": {"env": [{"name": "CART", "valueFrom": from}]}},
    ]});
    shop.sandbox("pr-1", spec).await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    let fork = sandbox::fork::fork_name("shop", "web", "pr-1");
    let before = env(&shop.get("Deployment", &fork).await.unwrap(), "CART");
    assert!(before.starts_with("cart-pr-1-"), "{before}");
    // Of several Services the first by name leads to it.
    let mut other = service("cart");
    other["metadata"]["name"] = json!("basket");
    shop.make("Service", other).await.unwrap();
    let is_told = |it: &Value| env(it, "CART").starts_with("basket-pr-1-");
    shop.until("Deployment", &fork, "told of the new address", is_told).await;
    shop.delete("Service", "basket").await;
    shop.until("Deployment", &fork, "told of the old address", |it| env(it, "CART") == before).await;
}

#[tokio::test]
async fn a_fork_without_our_labels_is_put_right_and_so_is_its_service() {
    let mut world = World::start().await;
    let shop = with_cart(&world).await;
    shop.fork("pr-1", "cart").await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    let fork = shop.forks("pr-1").await.remove(0);
    let service = shop.fork_services("pr-1").await.remove(0);
    for (kind, before) in [("Deployment", &fork), ("Service", &service)] {
        let none = json!({"metadata": {"labels": {(format!("{GROUP}/sandbox")): null, (format!("{GROUP}/fork")): null}}});
        shop.merge(kind, name(before), none).await.unwrap();
        let is_right = |it: &Value| it["metadata"]["labels"] == before["metadata"]["labels"];
        let now = shop.until(kind, name(before), "labelled again", is_right).await;
        assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"], "it is the same one");
        shop.until_said("pr-1", "Accepted", "True", "Accepted").await;
    }
    world.end().await;
}

#[tokio::test]
async fn what_people_should_know_of_a_fork_is_told_also_if_its_sandbox_waited_first() {
    let world = World::start().await;
    let shop = world.shop().await;
    shop.fork("pr-1", "cart").await;
    shop.until_said("pr-1", "BaselineResolved", "False", "BaselineNotFound").await;
    let mut cart = deployment("cart");
    cart["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "migrate", "image": "repo/migrate:1"}]);
    shop.make("Deployment", cart).await.unwrap();
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    shop.eventually("its migrations are told", async || {
        let all = shop.list("Event", "").await;
        all.iter().any(|it| it["note"].as_str().is_some_and(|it| it.contains("migrate")))
    })
    .await;
}
