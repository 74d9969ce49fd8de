//! F5: a settled system writes nothing.

use std::time::Duration;

use embedded_kube::{fault_injection::RequestRecord, request::Verb};
use serde_json::json;

use super::{
    env_settings::env_number,
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    network::in_own_network,
    routed_harness::is_programmed,
    takeover::create_routers,
    test_namespace::fork_spec,
    traffic::{
        PodServers, ROUTER_AGENT, is_taken_over, router_client, set_routing, start_router,
        start_service_controller,
    },
};

/// Duration without writes. The full property is five minutes: `F5_SECONDS=300`.
fn idle_period() -> Duration {
    Duration::from_secs(env_number("F5_SECONDS", 15))
}

/// Whether this is a periodic write of a router: Lease renewal or session heartbeat.
fn is_periodic(write: &RequestRecord) -> bool {
    let tells = (write.resource.as_str(), write.subresource.as_str()) == ("localworkloads", "status");
    write.agent == ROUTER_AGENT && (write.resource == "leases" || tells)
}

/// What the controllers and the routers wrote.
fn all_writes(world: &SandboxHarness) -> Vec<RequestRecord> {
    let mut all = world.server.requests();
    all.retain(|it| {
        it.is_write() && [super::service_account::AGENT, ROUTER_AGENT].contains(&it.agent.as_str())
    });
    all
}

/// Of these, the writes that must not happen in a settled system.
fn unexpected_writes(world: &SandboxHarness) -> Vec<RequestRecord> {
    let mut all = all_writes(world);
    all.retain(|it| !is_periodic(it));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_a_settled_system_writes_nothing_and_a_second_look_changes_nothing() {
    if !in_own_network(
        "sandbox::idle_writes::f5_a_settled_system_writes_nothing_and_a_second_look_changes_nothing",
    ) {
        return;
    }
    let mut world = SandboxHarness::with_pods(PodServers::default().into_address_fn()).await;
    let _services = start_service_controller(&world);
    let shop = namespace_with_cart(&world).await;
    let client = router_client(&world).await;
    let running: Vec<_> =
        create_routers(&shop, 2).await.iter().map(|pod| start_router(client.clone(), pod)).collect();
    set_routing(&shop, "cart", json!("enabled")).await;
    // Values that the API server writes down in its own way, and a patch.
    let custom = json!({
        "images": [{"image": "repo/cart:pr-1"}],
        "resources": [{"requests": {"cpu": "0.5", "memory": "1024Mi"}}],
        "patch": {"type": "strategic", "value": "spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}"},
    });
    let mut spec = fork_spec("cart", &custom);
    spec["local"] = json!([{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]);
    shop.create_service("web").await;
    shop.create_sandbox("pr-1", spec).await;
    shop.create_fork("pr-2", "cart").await;
    let group = json!({"match": {"label": {"key": "feature", "value": "x"}}, "routingKey": "group-key"});
    shop.create_object("RouteGroup", json!({"metadata": {"name": "g"}, "spec": group})).await.unwrap();
    shop.merge_patch("Sandbox", "pr-2", json!({"metadata": {"labels": {"feature": "x"}}})).await.unwrap();
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    // No agent is connected to the other one.
    for (kind, name) in [("Sandbox", "pr-2"), ("RouteGroup", "g")] {
        shop.wait_until(kind, name, "programmed", is_programmed).await;
    }
    assert!(is_taken_over(&shop.get("Service", "cart").await.unwrap()));
    world.settle().await;
    world.wait_for_idle_period(idle_period(), || unexpected_writes(&world)).await;
    let has_routers = all_writes(&world).iter().any(is_periodic);
    assert!(has_routers, "the log has nothing of the routers, so it proves nothing of them");

    // A restart looks at everything again.
    let forks =
        async || (shop.forks("pr-1").await, shop.forks("pr-2").await, shop.fork_services("pr-1").await);
    let (made, sandbox) = (forks().await, shop.get("Sandbox", "pr-1").await);
    world.stop_controllers().await;
    world.start_controllers();
    let reads = world.requests().len();
    shop.wait_for("it looked again", async || world.requests().len() > reads + 20).await;
    world.settle().await;
    assert_eq!(forks().await, made, "no resourceVersion changes");
    assert_eq!(shop.get("Sandbox", "pr-1").await, sandbox);
    world.stop_controllers().await;
    for router in running {
        router.stop.cancel();
        router.task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn f5_a_session_that_lives_leads_to_no_look_at_its_sandbox() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let spec = json!({"local": [{"name": "web", "from": {"name": "cart"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]});
    shop.create_sandbox("pr-1", spec).await;
    let connected = json!([{"type": "Connected", "status": "True", "reason": "Connected", "message": "",
        "lastTransitionTime": "2026-11-17T05:00:00Z"}]);
    // Without a recent heartbeat a session counts as disconnected.
    let beat = |rtt: u32| {
        let now = terraform_driver::clock::now().to_string();
        json!({"conditions": connected, "session": {"id": "s", "user": "ann", "lastHeartbeatTime": now, "rttMillis": rtt}})
    };
    shop.wait_until("LocalWorkload", "pr-1-web", "there", |_| true).await;
    shop.set_status("LocalWorkload", "pr-1-web", beat(0)).await;
    shop.wait_for_condition("pr-1", "LocalsConnected", "True", "Connected").await;
    world.settle().await;
    let since = |before: usize| world.requests().split_off(before);
    // Only a reconcile of a Sandbox reads these.
    let looks =
        |before: usize| since(before).iter().filter(|it| it.resource == "poddisruptionbudgets").count();
    let mut before = 0;
    for round in 0..10 {
        before = world.requests().len();
        for at in 1..=5 {
            shop.set_status("LocalWorkload", "pr-1-web", beat(round * 5 + at)).await;
        }
        world.settle().await;
        if !world.has_watch_restart_since(before) {
            break;
        }
    }
    assert_eq!(looks(before), 0);
    // And a look does not read all local workloads of the namespace.
    shop.merge_patch("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.wait_for("it was looked at", async || looks(before) > 0).await;
    world.settle().await;
    let count = |verb: Verb, is_look: bool| {
        let is = |it: &&RequestRecord| {
            it.verb == Some(verb) && it.resource == "localworkloads" && it.namespace.is_empty() != is_look
        };
        since(before).iter().filter(is).count()
    };
    assert_eq!(count(Verb::List, true), 0);
    // An API server may have ended the watch of all of them, which begins with a list again. A look begins no watch.
    shop.wait_for("every list began a watch", async || count(Verb::List, false) <= count(Verb::Watch, false))
        .await;
    world.stop_controllers().await;
}
