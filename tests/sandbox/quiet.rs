//! F5: a settled system writes nothing.

use std::time::Duration;

use serde_json::json;

use crate::{life::with_cart, shop::forking, world::World};

/// How long nothing may be written. The whole property asks for five minutes; nobody here does anything by the clock.
const QUIET: Duration = Duration::from_secs(8);

#[tokio::test]
async fn f5_a_settled_system_writes_nothing_and_a_second_look_changes_nothing() {
    let mut world = World::start().await;
    let shop = with_cart(&world).await;
    // Values that the API server writes down in its own way, and a patch.
    let custom = json!({
        "images": [{"image": "repo/cart:pr-1"}],
        "resources": [{"requests": {"cpu": "0.5", "memory": "1024Mi"}}],
        "patch": {"type": "strategic", "value": "spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}"},
    });
    let mut spec = forking("cart", &custom);
    spec["local"] = json!([{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]);
    shop.service("web").await;
    shop.sandbox("pr-1", spec).await;
    shop.fork("pr-2", "cart").await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    shop.until_said("pr-2", "ForksReady", "True", "Ready").await;
    world.settle().await;
    let before = world.writes().len();
    tokio::time::sleep(QUIET).await;
    let since: Vec<_> = world.writes().split_off(before);
    assert!(since.is_empty(), "{since:#?}");

    // A restart looks at everything again.
    let forks =
        async || (shop.forks("pr-1").await, shop.forks("pr-2").await, shop.fork_services("pr-1").await);
    let (made, sandbox) = (forks().await, shop.get("Sandbox", "pr-1").await);
    world.end().await;
    world.begin();
    let reads = world.kube.requests().all().len();
    shop.eventually("it looked again", async || world.kube.requests().all().len() > reads + 20).await;
    world.settle().await;
    assert_eq!(forks().await, made, "no resourceVersion changes");
    assert_eq!(shop.get("Sandbox", "pr-1").await, sandbox);
    world.end().await;
}
