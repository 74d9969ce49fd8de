//! F5: a settled system writes nothing.

use std::time::Duration;

use embedded_kube::{faults::Logged, request::Verb};
use serde_json::json;

use super::{
    life::with_cart,
    network::in_own_network,
    settings::number,
    shop::forking,
    takeover::routers,
    town::is_programmed,
    traffic::{Pods, ROUTER, as_router, enable, is_taken, router, services},
    world::World,
};

/// How long nothing may be written. The whole property asks for five minutes, and gets them with `F5_SECONDS=300`.
fn quiet() -> Duration {
    Duration::from_secs(number("F5_SECONDS", 15))
}

/// Whether a router may do so by the clock: it renews its Lease, and tells of those who are connected.
fn is_by_the_clock(write: &Logged) -> bool {
    let tells = (write.resource.as_str(), write.subresource.as_str()) == ("localworkloads", "status");
    write.agent == ROUTER && (write.resource == "leases" || tells)
}

/// What the controllers and the routers wrote.
fn writes(world: &World) -> Vec<Logged> {
    let mut all = world.server.requests();
    all.retain(|it| it.is_write() && [super::account::AGENT, ROUTER].contains(&it.agent.as_str()));
    all
}

/// Of these, the writes that must not happen in a settled system.
fn unasked(world: &World) -> Vec<Logged> {
    let mut all = writes(world);
    all.retain(|it| !is_by_the_clock(it));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_a_settled_system_writes_nothing_and_a_second_look_changes_nothing() {
    if !in_own_network("sandbox::quiet::f5_a_settled_system_writes_nothing_and_a_second_look_changes_nothing")
    {
        return;
    }
    let mut world = World::with_pods(Pods::default().starts()).await;
    let _services = services(&world);
    let shop = with_cart(&world).await;
    let client = as_router(&world).await;
    let running: Vec<_> = routers(&shop, 2).await.iter().map(|pod| router(client.clone(), pod)).collect();
    enable(&shop, "cart", json!("enabled")).await;
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
    let group = json!({"match": {"label": {"key": "feature", "value": "x"}}, "routingKey": "group-key"});
    shop.make("RouteGroup", json!({"metadata": {"name": "g"}, "spec": group})).await.unwrap();
    shop.merge("Sandbox", "pr-2", json!({"metadata": {"labels": {"feature": "x"}}})).await.unwrap();
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    // Nobody is connected to the other one.
    for (kind, name) in [("Sandbox", "pr-2"), ("RouteGroup", "g")] {
        shop.until(kind, name, "programmed", is_programmed).await;
    }
    assert!(is_taken(&shop.get("Service", "cart").await.unwrap()));
    world.settle().await;
    world.silence(quiet(), || unasked(&world)).await;
    let has_routers = writes(&world).iter().any(is_by_the_clock);
    assert!(has_routers, "the log has nothing of the routers, so it proves nothing of them");

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
    for router in running {
        router.stop.cancel();
        router.task.await.unwrap().unwrap();
    }
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
    let since = |before: usize| world.requests().split_off(before);
    // Nobody else asks for these.
    let looks =
        |before: usize| since(before).iter().filter(|it| it.resource == "poddisruptionbudgets").count();
    let mut before = 0;
    for round in 0..10 {
        before = world.requests().len();
        for at in 1..=5 {
            shop.set_status("LocalWorkload", "pr-1-web", beat(round * 5 + at)).await;
        }
        world.settle().await;
        if !world.is_disturbed(before) {
            break;
        }
    }
    assert_eq!(looks(before), 0);
    // And a look does not read all local workloads of the namespace.
    shop.merge("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.eventually("it was looked at", async || looks(before) > 0).await;
    world.settle().await;
    let count = |verb: Verb, is_look: bool| {
        let is = |it: &&Logged| {
            it.verb == Some(verb) && it.resource == "localworkloads" && it.namespace.is_empty() != is_look
        };
        since(before).iter().filter(is).count()
    };
    assert_eq!(count(Verb::List, true), 0);
    // An API server may have ended the watch of all of them, which begins with a list again. A look begins no watch.
    shop.eventually("every list began a watch", async || {
        count(Verb::List, false) <= count(Verb::Watch, false)
    })
    .await;
    world.end().await;
}
