//! F5: a settled system writes nothing.

use std::time::Duration;

use embedded_kube::request::Verb;
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
    let reads = world.requests().len();
    shop.eventually("it looked again", async || world.requests().len() > reads + 20).await;
    world.settle().await;
    assert_eq!(forks().await, made, "no resourceVersion changes");
    assert_eq!(shop.get("Sandbox", "pr-1").await, sandbox);
    world.end().await;
}

#[tokio::test]
async fn f5_a_session_that_lives_leads_to_no_look_at_its_sandbox() {
    let mut world = World::start().await;
    let shop = with_cart(&world).await;
    let spec = json!({"local": [{"name": "web", "from": {"name": "cart"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]});
    shop.sandbox("pr-1", spec).await;
    let connected = json!([{"type": "Connected", "status": "True", "reason": "Connected", "message": "",
        "lastTransitionTime": "2026-11-17T05:00:00Z"}]);
    // Somebody who is not heard of for a while is not connected any more.
    let beat = |rtt: u32| {
        let now = terraform_driver::clock::now().to_string();
        json!({"conditions": connected, "session": {"id": "s", "user": "ann", "lastHeartbeatTime": now, "rttMillis": rtt}})
    };
    shop.until("LocalWorkload", "pr-1-web", "there", |_| true).await;
    shop.set_status("LocalWorkload", "pr-1-web", beat(0)).await;
    shop.until_said("pr-1", "LocalsConnected", "True", "Connected").await;
    world.settle().await;
    let before = world.requests().len();
    for at in 1..=5 {
        shop.set_status("LocalWorkload", "pr-1-web", beat(at)).await;
    }
    world.settle().await;
    // Nobody else asks for these.
    let looks =
        || world.requests()[before..].iter().filter(|it| it.resource == "poddisruptionbudgets").count();
    assert_eq!(looks(), 0);
    // And a look does not read all local workloads of the namespace.
    shop.merge("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.eventually("it was looked at", async || looks() > 0).await;
    world.settle().await;
    let read = world.requests().split_off(before);
    let ours = read.iter().filter(|it| it.resource == "localworkloads");
    let verbs: Vec<_> = ours.filter_map(|it| it.verb).map(Verb::name).collect();
    assert!(!verbs.contains(&"list"), "{verbs:?}");
    world.end().await;
}
