//! Services that are taken over and given back while traffic goes through routers.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    fake_node::FakeNode,
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    load::LoadGenerator,
    network::in_own_network,
    remote_clusters::{WorkloadCluster, spec_in_cluster_dev},
    routed_harness::is_programmed,
    takeover::{create_routers, wait_for_listen_port},
    test_namespace::TestNamespace,
    traffic::{
        PodServers, is_router_ready, is_taken_over, request_service, set_pod_ready, set_routing,
        start_router, start_router_with_linger, start_service_controller, wait_until_endpoints_are,
    },
};

/// How long a router goes on after it was told to stop: longer than anybody waits here. Nodes learn of it late, and a busy
/// machine later still; when they all know, the test ends the router.
const LINGER: Duration = Duration::from_hours(1);

/// Waits until a router that was killed has left its ports: its threads end a moment later.
async fn wait_until_ports_free(shop: &TestNamespace, address: IpAddr) {
    let service: u16 = wait_for_listen_port(shop).await.parse().unwrap();
    for port in [8080, 8081, 8446, service] {
        shop.wait_for("the old router is gone", async || TcpListener::bind((address, port)).await.is_ok())
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
    let world = SandboxHarness::with_pods(PodServers::default().into_address_fn()).await;
    let _services = start_service_controller(&world);
    let shop = namespace_with_cart(&world).await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = create_routers(&shop, 2).await;
    let old = start_router_with_linger(world.server.client("router"), &pods[0], LINGER);
    let other = start_router(world.server.client("router"), &pods[1]);
    let load = LoadGenerator::start(&shop, "cart", "repo/cart:v1").await;
    set_routing(&shop, "cart", json!("enabled")).await;
    shop.wait_until("Service", "cart", "taken over", is_taken_over).await;
    wait_until_endpoints_are(&shop, "cart", &[&pods[0], &pods[1]]).await;
    load.wait_until_endpoints_known().await;
    load.wait_until_routed().await;

    // A fork gets the requests with its key and no others.
    let sandbox = shop.create_fork("pr-1", "cart").await;
    assert!(sandbox.is_object());
    let sandbox = shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let key = sandbox["status"]["routingKey"].as_str().unwrap().to_owned();
    shop.wait_for("both routers lead to the fork", async || {
        let answers = [
            request_service(&shop, "cart", Some(&key), 0).await,
            request_service(&shop, "cart", Some(&key), 1).await,
        ];
        answers.iter().all(|it| it.as_deref() == Ok("repo/cart:pr-1"))
    })
    .await;
    assert_eq!(request_service(&shop, "cart", Some("nobodys"), 0).await.as_deref(), Ok("repo/cart:v1"));

    // A router is started anew. It is told to stop in the moment in which its pod is not ready any more, as a kubelet does.
    let pod = &pods[0];
    old.stop.cancel();
    set_pod_ready(&shop, pod, false).await;
    load.wait_until_endpoints_known().await;
    // It sends everybody away, and answers those who come because they do not know.
    let address: IpAddr = pod["status"]["podIP"].as_str().unwrap().parse().unwrap();
    load.wait_until_disconnected_from(address).await;
    old.task.abort();
    assert!(old.task.await.unwrap_err().is_cancelled(), "it did not linger");
    wait_until_ports_free(&shop, address).await;
    let new = start_router(world.server.client("router"), pod);
    shop.wait_for("the new router is ready", async || is_router_ready(SocketAddr::new(address, 8081)).await)
        .await;
    set_pod_ready(&shop, pod, true).await;
    load.wait_until_endpoints_known().await;
    load.wait_until_routed().await;

    // Others come and go.
    for other in ["pr-2", "pr-3", "pr-4"] {
        shop.create_fork(other, "cart").await;
    }
    for other in ["pr-2", "pr-3", "pr-4", "pr-1"] {
        shop.wait_until("Sandbox", other, "programmed", is_programmed).await;
        shop.delete("Sandbox", other).await;
    }
    for other in ["pr-2", "pr-3", "pr-4", "pr-1"] {
        shop.wait_until_deleted("Sandbox", other).await;
    }
    shop.wait_for("the key is free again", async || {
        request_service(&shop, "cart", Some(&key), 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    set_routing(&shop, "cart", Value::Null).await;
    let back = shop.wait_until("Service", "cart", "given back", |it| !is_taken_over(it)).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    load.wait_until_endpoints_known().await;
    load.finish().await;
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
    let world = SandboxHarness::with_pods(PodServers::default().into_address_fn()).await;
    let _services = start_service_controller(&world);
    let shop = namespace_with_cart(&world).await;
    let pod = create_routers(&shop, 1).await.remove(0);
    let running = start_router(world.server.client("router"), &pod);
    set_routing(&shop, "cart", json!("enabled")).await;
    shop.wait_until("Service", "cart", "taken over", is_taken_over).await;
    wait_until_endpoints_are(&shop, "cart", &[&pod]).await;
    assert_eq!(request_service(&shop, "cart", None, 0).await.as_deref(), Ok("repo/cart:v1"));
    // It dies, and its pod is not ready.
    running.task.abort();
    set_pod_ready(&shop, &pod, false).await;
    shop.wait_until("Service", "cart", "given back", |it| !is_taken_over(it)).await;
    shop.wait_for_event("cart", "RouterBypassed").await;
    shop.wait_for("the baseline answers", async || {
        request_service(&shop, "cart", None, 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    let again = start_router(world.server.client("router"), &pod);
    set_pod_ready(&shop, &pod, true).await;
    shop.wait_until("Service", "cart", "taken over again", is_taken_over).await;
    shop.wait_for("the router answers", async || {
        request_service(&shop, "cart", None, 0).await.as_deref() == Ok("repo/cart:v1")
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
    let mut world = SandboxHarness::start().await;
    let _services = start_service_controller(&world);
    let shop = namespace_with_cart(&world).await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pod = create_routers(&shop, 1).await.remove(0);
    let running = start_router(world.server.client("router"), &pod);
    set_routing(&shop, "cart", json!("while-active")).await;
    world.settle().await;
    assert!(!is_taken_over(&shop.get("Service", "cart").await.unwrap()), "it is not needed yet");
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_phase("pr-1", "Ready").await;
    assert!(is_taken_over(&shop.get("Service", "cart").await.unwrap()));
    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    let back = shop.wait_until("Service", "cart", "given back", |it| !is_taken_over(it)).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    running.stop.cancel();
    running.task.await.unwrap().unwrap();
    world.stop_controllers().await;
}

#[tokio::test]
async fn f3_f4_a_service_is_taken_over_and_given_back() {
    let world = SandboxHarness::start().await;
    let _services = start_service_controller(&world);
    super::takeover::check_takeover_and_restore(&namespace_with_cart(&world).await).await;
}

#[tokio::test]
async fn a_service_that_somebody_takes_back_is_left_alone_after_three_attempts() {
    let world = SandboxHarness::start().await;
    let _services = start_service_controller(&world);
    super::takeover::check_reverted_by_other_tool(&namespace_with_cart(&world).await).await;
}

/// Kinds, controllers and routes are brought to the cluster by the operator; routers are the cluster's own.
#[tokio::test(flavor = "multi_thread")]
async fn f13_a_sandbox_in_another_cluster_is_ready_when_requests_reach_it_there() {
    if !in_own_network(
        "sandbox::routing::f13_a_sandbox_in_another_cluster_is_ready_when_requests_reach_it_there",
    ) {
        return;
    }
    let mut world = SandboxHarness::start().await;
    let (here, made) = (world.create_namespace().await, WorkloadCluster::start().await);
    let there = made.namespace.clone();
    let _node =
        FakeNode::start_with(made.server.client("node"), PodServers::default().into_address_fn()).await;
    made.set_ready(&here, &WorkloadCluster::create_control_plane(&here, json!({})).await).await;
    here.create_sandbox("pr-1", spec_in_cluster_dev(&json!({"images": [{"image": "repo/cart:pr-1"}]}))).await;
    here.wait_for_condition("pr-1", "RoutesProgrammed", "False", "NoRouters").await;
    let pod = create_routers(&there, 1).await.remove(0);
    let running = start_router(made.server.client("router"), &pod);
    set_routing(&there, "cart", json!("enabled")).await;
    let sandbox = here.wait_for_phase("pr-1", "Ready").await;
    let key = sandbox["status"]["routingKey"].as_str().unwrap().to_owned();
    wait_until_endpoints_are(&there, "cart", &[&pod]).await;
    assert_eq!(request_service(&there, "cart", Some(&key), 0).await.as_deref(), Ok("repo/cart:pr-1"));
    assert_eq!(request_service(&there, "cart", None, 0).await.as_deref(), Ok("repo/cart:v1"));

    // Changes are propagated to the remote cluster, and failures there are reported here.
    here.merge_patch("Sandbox", "pr-1", json!({"metadata": {"labels": {"feature": "x"}}})).await.unwrap();
    there.wait_until("Sandbox", "pr-1", "labelled", |it| it["metadata"]["labels"]["feature"] == "x").await;
    there.delete("Deployment", "cart").await;
    here.wait_for_condition("pr-1", "BaselineResolved", "False", "BaselineDeleted").await;
    assert_eq!(here.wait_for_phase("pr-1", "Degraded").await["status"]["routingKey"], key.as_str());

    here.delete("Sandbox", "pr-1").await;
    here.wait_until_deleted("Sandbox", "pr-1").await;
    assert!(there.get("Sandbox", "pr-1").await.is_none() && there.forks("pr-1").await.is_empty());
    running.stop.cancel();
    running.task.await.unwrap().unwrap();
    world.stop_controllers().await;
}
