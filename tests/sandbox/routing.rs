//! Services that are taken over and given back while traffic goes through routers.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    clusters::{Made, in_dev},
    life::with_cart,
    load::Load,
    network::in_own_network,
    node::Node,
    shop::Shop,
    takeover::{announced, routers},
    town::is_programmed,
    traffic::{Pods, ask, enable, is_ready, is_taken, lingering, router, services, set_ready, until_behind},
    world::World,
};

/// How long a router goes on after it was told to stop: longer than anybody waits here. Nodes learn of it late, and a busy
/// machine later still; when they all know, the test ends the router.
const LINGER: Duration = Duration::from_hours(1);

/// Waits until a router that was killed has left its ports: its threads end a moment later.
async fn until_free(shop: &Shop, address: IpAddr) {
    let service: u16 = announced(shop).await.parse().unwrap();
    for port in [8080, 8081, 8446, service] {
        shop.eventually("the old router is gone", async || TcpListener::bind((address, port)).await.is_ok())
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_f4_routing_is_enabled_used_and_disabled_under_load_and_nothing_fails() {
    if !in_own_network(
        "sandbox::routing::f3_f4_routing_is_enabled_used_and_disabled_under_load_and_nothing_fails",
    ) {
        return;
    }
    let world = World::with_pods(Pods::default().starts()).await;
    let _services = services(&world);
    let shop = with_cart(&world).await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = routers(&shop, 2).await;
    let old = lingering(world.server.client("router"), &pods[0], LINGER);
    let other = router(world.server.client("router"), &pods[1]);
    let load = Load::start(&shop, "cart", "repo/cart:v1").await;
    enable(&shop, "cart", json!("enabled")).await;
    shop.until("Service", "cart", "taken over", is_taken).await;
    until_behind(&shop, "cart", &[&pods[0], &pods[1]]).await;
    load.known().await;
    load.routed().await;

    // A fork gets the requests with its key and no others.
    let sandbox = shop.fork("pr-1", "cart").await;
    assert!(sandbox.is_object());
    let sandbox = shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    let key = sandbox["status"]["routingKey"].as_str().unwrap().to_owned();
    shop.eventually("both routers lead to the fork", async || {
        let answers = [ask(&shop, "cart", Some(&key), 0).await, ask(&shop, "cart", Some(&key), 1).await];
        answers.iter().all(|it| it.as_deref() == Ok("repo/cart:pr-1"))
    })
    .await;
    assert_eq!(ask(&shop, "cart", Some("nobodys"), 0).await.as_deref(), Ok("repo/cart:v1"));

    // A router is started anew. It is told to stop in the moment in which its pod is not ready any more, as a kubelet does.
    let pod = &pods[0];
    old.stop.cancel();
    set_ready(&shop, pod, false).await;
    load.known().await;
    // It sends everybody away, and answers those who come because they do not know.
    let address: IpAddr = pod["status"]["podIP"].as_str().unwrap().parse().unwrap();
    load.left(address).await;
    old.task.abort();
    assert!(old.task.await.unwrap_err().is_cancelled(), "it did not linger");
    until_free(&shop, address).await;
    let new = router(world.server.client("router"), pod);
    shop.eventually("the new router is ready", async || is_ready(SocketAddr::new(address, 8081)).await).await;
    set_ready(&shop, pod, true).await;
    load.known().await;
    load.routed().await;

    // Others come and go.
    for other in ["pr-2", "pr-3", "pr-4"] {
        shop.fork(other, "cart").await;
    }
    for other in ["pr-2", "pr-3", "pr-4", "pr-1"] {
        shop.until("Sandbox", other, "programmed", is_programmed).await;
        shop.delete("Sandbox", other).await;
    }
    for other in ["pr-2", "pr-3", "pr-4", "pr-1"] {
        shop.until_gone("Sandbox", other).await;
    }
    shop.eventually("the key is nobody's any more", async || {
        ask(&shop, "cart", Some(&key), 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    enable(&shop, "cart", Value::Null).await;
    let back = shop.until("Service", "cart", "given back", |it| !is_taken(it)).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    load.known().await;
    load.end().await;
    for router in [new, other] {
        router.stop.cancel();
        router.task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_router_the_baseline_gets_its_traffic_back_until_there_is_one() {
    if !in_own_network(
        "sandbox::routing::without_a_router_the_baseline_gets_its_traffic_back_until_there_is_one",
    ) {
        return;
    }
    let world = World::with_pods(Pods::default().starts()).await;
    let _services = services(&world);
    let shop = with_cart(&world).await;
    let pod = routers(&shop, 1).await.remove(0);
    let running = router(world.server.client("router"), &pod);
    enable(&shop, "cart", json!("enabled")).await;
    shop.until("Service", "cart", "taken over", is_taken).await;
    until_behind(&shop, "cart", &[&pod]).await;
    assert_eq!(ask(&shop, "cart", None, 0).await.as_deref(), Ok("repo/cart:v1"));
    // It dies, and its pod is not ready.
    running.task.abort();
    set_ready(&shop, &pod, false).await;
    shop.until("Service", "cart", "given back", |it| !is_taken(it)).await;
    shop.until_told("cart", "RouterBypassed").await;
    shop.eventually("the baseline answers", async || {
        ask(&shop, "cart", None, 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    let again = router(world.server.client("router"), &pod);
    set_ready(&shop, &pod, true).await;
    shop.until("Service", "cart", "taken over again", is_taken).await;
    shop.eventually("the router answers", async || {
        ask(&shop, "cart", None, 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    again.stop.cancel();
    again.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_routed_only_while_a_sandbox_stands_in_for_it() {
    if !in_own_network("sandbox::routing::a_service_may_be_routed_only_while_a_sandbox_stands_in_for_it") {
        return;
    }
    let mut world = World::start().await;
    let _services = services(&world);
    let shop = with_cart(&world).await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pod = routers(&shop, 1).await.remove(0);
    let running = router(world.server.client("router"), &pod);
    enable(&shop, "cart", json!("while-active")).await;
    world.settle().await;
    assert!(!is_taken(&shop.get("Service", "cart").await.unwrap()), "nobody needs it yet");
    shop.fork("pr-1", "cart").await;
    shop.until_phase("pr-1", "Ready").await;
    assert!(is_taken(&shop.get("Service", "cart").await.unwrap()));
    shop.delete("Sandbox", "pr-1").await;
    shop.until_gone("Sandbox", "pr-1").await;
    let back = shop.until("Service", "cart", "given back", |it| !is_taken(it)).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    running.stop.cancel();
    running.task.await.unwrap().unwrap();
    world.end().await;
}

#[tokio::test]
async fn f3_f4_a_service_is_taken_over_and_given_back() {
    let world = World::start().await;
    let _services = services(&world);
    super::takeover::taken_over_and_given_back(&with_cart(&world).await).await;
}

#[tokio::test]
async fn a_service_that_somebody_takes_back_is_left_alone_after_three_attempts() {
    let world = World::start().await;
    let _services = services(&world);
    super::takeover::taken_back_by_somebody(&with_cart(&world).await).await;
}

/// Kinds, controllers and routes are brought to the cluster by the operator; routers are the cluster's own.
#[tokio::test(flavor = "multi_thread")]
async fn f13_a_sandbox_in_another_cluster_is_ready_when_requests_reach_it_there() {
    if !in_own_network(
        "sandbox::routing::f13_a_sandbox_in_another_cluster_is_ready_when_requests_reach_it_there",
    ) {
        return;
    }
    let mut world = World::start().await;
    let (here, made) = (world.shop().await, Made::start().await);
    let there = made.there.clone();
    let _node = Node::start_with(made.server.client("node"), Pods::default().starts()).await;
    made.ready(&here, &Made::control_plane(&here, json!({})).await).await;
    here.sandbox("pr-1", in_dev(&json!({"images": [{"image": "repo/cart:pr-1"}]}))).await;
    here.until_said("pr-1", "RoutesProgrammed", "False", "NoRouters").await;
    let pod = routers(&there, 1).await.remove(0);
    let running = router(made.server.client("router"), &pod);
    enable(&there, "cart", json!("enabled")).await;
    let sandbox = here.until_phase("pr-1", "Ready").await;
    let key = sandbox["status"]["routingKey"].as_str().unwrap().to_owned();
    until_behind(&there, "cart", &[&pod]).await;
    assert_eq!(ask(&there, "cart", Some(&key), 0).await.as_deref(), Ok("repo/cart:pr-1"));
    assert_eq!(ask(&there, "cart", None, 0).await.as_deref(), Ok("repo/cart:v1"));

    // What is changed here is changed there, and what breaks there is told here.
    here.merge("Sandbox", "pr-1", json!({"metadata": {"labels": {"feature": "x"}}})).await.unwrap();
    there.until("Sandbox", "pr-1", "labelled", |it| it["metadata"]["labels"]["feature"] == "x").await;
    there.delete("Deployment", "cart").await;
    here.until_said("pr-1", "BaselineResolved", "False", "BaselineDeleted").await;
    assert_eq!(here.until_phase("pr-1", "Degraded").await["status"]["routingKey"], key.as_str());

    here.delete("Sandbox", "pr-1").await;
    here.until_gone("Sandbox", "pr-1").await;
    assert!(there.get("Sandbox", "pr-1").await.is_none() && there.forks("pr-1").await.is_empty());
    running.stop.cancel();
    running.task.await.unwrap().unwrap();
    world.end().await;
}
