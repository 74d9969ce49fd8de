//! Mode `GatewayAPI`: a mesh sends requests to the forks. The test plays the mesh and writes the status of the routes.

use std::time::Duration;

use capt_kube::k8s::KubeClient;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_kube::wait_until_served,
    test_namespace::{GROUP, TestNamespace, condition, condition_message, name},
};

/// The kind as upstream serves it, as far as it concerns us: lists are atomic, and what is left out is filled in.
const CRD: &str = include_str!("../fixtures/gateway-api/httproutes.yaml");

/// The kind as its project publishes it, with all of its rules; ours where `scripts/real-kube` has not fetched it.
fn published_crd() -> String {
    let bin = conformance::config::Settings::read().real_bin;
    bin.and_then(|bin| std::fs::read_to_string(bin.join("httproutes.yaml")).ok())
        .unwrap_or_else(|| CRD.to_owned())
}

async fn install_httproute_crd(world: &SandboxHarness) {
    let crd = serde_saphyr::from_str(&published_crd()).unwrap();
    let writer = KubeClient::new(world.client());
    writer.install_crds(&[crd]).await.unwrap();
    let missing = writer
        .wait_for_crds(&["httproutes.gateway.networking.k8s.io"], Duration::from_mins(5))
        .await
        .unwrap();
    assert!(missing.is_empty(), "{missing:?}");
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute"));
    for client in [world.client(), world.operator_client()] {
        wait_until_served(&Api::<DynamicObject>::all_with(client, &kind)).await;
    }
}

async fn create_group(shop: &TestNamespace, mode: &str) {
    let spec = json!({
        "match": {"label": {"key": "feature", "value": "cart-*"}}, "routingKey": "group-key",
        "routing": {"mode": mode, "customHeaders": ["x-tenant"]},
    });
    shop.create_object("RouteGroup", json!({"metadata": {"name": "g"}, "spec": spec})).await.unwrap();
}

async fn create_member(shop: &TestNamespace, name: &str, of: &str) {
    let spec = json!({"forks": [{"forkOf": {"name": of}}], "routingKey": format!("{name}-key")});
    let meta = json!({"name": name, "labels": {"feature": "cart-v2"}});
    shop.create_object("Sandbox", json!({"metadata": meta, "spec": spec})).await.unwrap();
    shop.wait_for_condition(name, "ForksReady", "True", "Ready").await;
}

async fn wait_for_routes(shop: &TestNamespace, status: &str, reason: &str) -> Value {
    let is = |it: &Value| condition(it, "RoutesProgrammed") == (status.to_owned(), reason.to_owned());
    shop.wait_until("RouteGroup", "g", &format!("{status}/{reason}"), is).await
}

/// Our objects.
async fn our_httproutes(shop: &TestNamespace) -> Vec<Value> {
    shop.list("HTTPRoute", &format!("{GROUP}/service")).await
}

fn matched_keys(route: &Value) -> Vec<String> {
    let text = route["spec"].to_string();
    ["group-key", "pr-1-key", "pr-2-key"]
        .into_iter()
        .filter(|it| text.contains(*it))
        .map(str::to_owned)
        .collect()
}

async fn set_accepted(shop: &TestNamespace, route: &Value, accepted: &str) {
    let condition = json!({
        "type": "Accepted", "status": accepted, "reason": if accepted == "True" { "Accepted" } else { "NoMatchingParent" },
        "message": "as the mesh sees it", "lastTransitionTime": "2026-11-17T05:00:00Z",
        "observedGeneration": route["metadata"]["generation"],
    });
    let mut resolved = condition.clone();
    resolved["type"] = json!("ResolvedRefs");
    resolved["status"] = json!("True");
    resolved["reason"] = json!("ResolvedRefs");
    let parent = json!({"controllerName": "linkerd.io/policy-controller", "parentRef": route["spec"]["parentRefs"][0],
        "conditions": [condition, resolved]});
    shop.set_status("HTTPRoute", name(route), json!({"parents": [parent]})).await;
}

#[tokio::test]
async fn a_mesh_gets_the_routes_and_its_word_counts() {
    let mut world = SandboxHarness::idle().await;
    install_httproute_crd(&world).await;
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    create_group(&shop, "GatewayAPI").await;
    create_member(&shop, "pr-1", "cart").await;
    let seen = wait_for_routes(&shop, "False", "RoutesNotAccepted").await;
    assert_eq!(seen["status"]["dataPlane"], "GatewayAPI");
    shop.wait_for("one object", async || our_httproutes(&shop).await.len() == 1).await;
    let route = our_httproutes(&shop).await.remove(0);
    assert_eq!(
        matched_keys(&route),
        ["group-key", "pr-1-key"],
        "a sandbox of the group has its own key, too"
    );
    let rules = route["spec"]["rules"].as_array().unwrap();
    let fork = &shop.fork_services("pr-1").await[0];
    assert_eq!(rules[0]["backendRefs"][0]["name"], fork["metadata"]["name"]);
    assert!(rules[0].to_string().contains("x-tenant"), "{}", rules[0]);
    assert_eq!(
        rules.last().unwrap()["backendRefs"][0]["name"],
        "cart",
        "everybody else reaches the baseline"
    );

    set_accepted(&shop, &route, "False").await;
    let is_refused = |it: &Value| condition_message(it, "RoutesProgrammed").contains("NoMatchingParent");
    shop.wait_until("RouteGroup", "g", "refused by the mesh", is_refused).await;
    set_accepted(&shop, &route, "True").await;
    wait_for_routes(&shop, "True", "Programmed").await;
    let seen = shop.wait_until("RouteGroup", "g", "ready", |it| it["status"]["phase"] == "Ready").await;
    assert!(seen["status"].get("programmedRouters").is_none());
    shop.wait_for_condition("pr-1", "RoutesProgrammed", "True", "Programmed").await;
    shop.wait_for_event("g", "RoutesProgrammed").await;

    // Nothing is written that is there already, though the API server filled in what was left out.
    world.settle().await;
    world.wait_for_idle_period(Duration::from_secs(2), || world.writes()).await;

    // A foreign edit is reverted.
    shop.merge_patch("HTTPRoute", name(&route), json!({"spec": {"rules": [route["spec"]["rules"][0]]}}))
        .await
        .unwrap();
    let is_back = |it: &Value| matched_keys(it) == ["group-key", "pr-1-key"];
    shop.wait_until("HTTPRoute", name(&route), "as it was", is_back).await;

    // Obsolete objects are deleted.
    shop.create_service("web").await;
    create_member(&shop, "pr-2", "web").await;
    shop.wait_for("one for each Service", async || our_httproutes(&shop).await.len() == 2).await;
    shop.delete("Sandbox", "pr-2").await;
    shop.wait_until_deleted("Sandbox", "pr-2").await;
    shop.wait_for("one again", async || our_httproutes(&shop).await.len() == 1).await;
    shop.delete("RouteGroup", "g").await;
    shop.wait_for("none", async || our_httproutes(&shop).await.is_empty()).await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn without_the_gateway_api_the_remedy_is_told_and_heeded() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    create_group(&shop, "GatewayAPI").await;
    create_member(&shop, "pr-1", "cart").await;
    let seen = wait_for_routes(&shop, "False", "GatewayAPINotServed").await;
    assert_eq!(
        (&seen["status"]["phase"], &seen["status"]["dataPlane"]),
        (&json!("Failed"), &json!("GatewayAPI"))
    );
    assert!(condition_message(&seen, "RoutesProgrammed").contains("install the Gateway API"));
    install_httproute_crd(&world).await;
    wait_for_routes(&shop, "False", "RoutesNotAccepted").await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn a_route_of_somebody_else_is_left_alone_and_named() {
    let mut world = SandboxHarness::idle().await;
    install_httproute_crd(&world).await;
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    let spec = json!({"parentRefs": [{"group": "", "kind": "Service", "name": "cart", "port": 80}],
        "rules": [{"backendRefs": [{"name": "cart", "port": 80}]}]});
    let theirs =
        shop.create_object("HTTPRoute", json!({"metadata": {"name": "canary"}, "spec": spec})).await.unwrap();
    create_group(&shop, "GatewayAPI").await;
    create_member(&shop, "pr-1", "cart").await;
    let seen = wait_for_routes(&shop, "False", "RouteConflict").await;
    assert!(condition_message(&seen, "RoutesProgrammed").contains("shop/canary"));
    world.settle().await;
    assert!(our_httproutes(&shop).await.is_empty());
    let now = shop.get("HTTPRoute", "canary").await.unwrap();
    assert_eq!(now["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"]);
    shop.delete("HTTPRoute", "canary").await;
    wait_for_routes(&shop, "False", "RoutesNotAccepted").await;
    shop.wait_for("one object", async || our_httproutes(&shop).await.len() == 1).await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn if_nobody_said_the_mesh_is_taken_only_when_it_is_alive_and_no_router_is_there() {
    let mut world = SandboxHarness::idle().await;
    install_httproute_crd(&world).await;
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    create_group(&shop, "Auto").await;
    create_member(&shop, "pr-1", "cart").await;
    let seen = wait_for_routes(&shop, "False", "NoRouters").await;
    assert_eq!(seen["status"]["dataPlane"], "Router", "a kind that is served is no mesh");
    let spec = json!({"parentRefs": [{"group": "", "kind": "Service", "name": "other"}]});
    let other =
        shop.create_object("HTTPRoute", json!({"metadata": {"name": "other"}, "spec": spec})).await.unwrap();
    set_accepted(&shop, &other, "True").await;
    let seen = wait_for_routes(&shop, "False", "RoutesNotAccepted").await;
    assert_eq!(seen["status"]["dataPlane"], "GatewayAPI");
    super::takeover::create_routers(&shop, 1).await;
    let is_back = |it: &Value| it["status"]["dataPlane"] == "Router";
    shop.wait_until("RouteGroup", "g", "our router's again", is_back).await;
    shop.wait_for("no object of ours", async || our_httproutes(&shop).await.is_empty()).await;
    assert!(shop.get("HTTPRoute", "other").await.is_some());
    world.stop_controllers().await;
}

/// The longest keys, the maximum number of them, and a large number of headers.
#[tokio::test]
async fn the_published_kind_takes_every_object_that_is_written_for_a_mesh() {
    let world = SandboxHarness::idle().await;
    install_httproute_crd(&world).await;
    let shop = namespace_with_cart(&world).await;
    for (keys, headers) in [(0, 0), (1, 0), (40, 1), (100, 5), (7, 80)] {
        let service = format!("cart-{keys}-{headers}");
        let answers =
            |at: usize| (format!("{at:0>63}"), (!at.is_multiple_of(5)).then(|| ("fork".to_owned(), 80)));
        let port = sandbox::mesh::MeshPort {
            namespace: "shop".to_owned(),
            service: service.clone(),
            port: 80,
            keys: (0..keys).map(answers).collect(),
            headers: (0..headers).map(|at| format!("x-tenant-{at}")).collect(),
        };
        let shards = sandbox::mesh::build_shards(&port, &sandbox::mesh::ShardByKey::new());
        for shard in &shards {
            let made = shop.create_object("HTTPRoute", shard.clone()).await;
            assert!(made.is_ok(), "{keys} keys and {headers} headers: {made:?}");
        }
        let kept = shop.list("HTTPRoute", &format!("{GROUP}/service={service}")).await;
        let known = sandbox::mesh::assigned_shards(&port, &kept);
        assert_eq!(known.len(), keys, "each key is found again in what the server keeps");
    }
}
