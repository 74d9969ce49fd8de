//! F13, as far as the status of a Sandbox goes: `RoutesProgrammed` holds when every ready router says that it has the routes.

use capt_kinds::sandbox::{LocalWorkload, Sandbox};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Api, api::ListParams};
use sandbox::routes::{RouteObjects, Routes, build_routes};
use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{GROUP, TestNamespace, condition, condition_message},
};

/// The routes that a router of this namespace would have now.
async fn compute_routes(shop: &TestNamespace) -> Routes {
    let all = ListParams::default();
    let TestNamespace { client, namespace } = shop.clone();
    let sandboxes = Api::<Sandbox>::namespaced(client.clone(), &namespace).list(&all).await.unwrap();
    let locals = Api::<LocalWorkload>::namespaced(client.clone(), &namespace).list(&all).await.unwrap();
    let services = Api::<Service>::namespaced(client.clone(), &namespace).list(&all).await.unwrap();
    let slices = Api::<EndpointSlice>::namespaced(client, &namespace).list(&all).await.unwrap();
    build_routes(&RouteObjects {
        sandboxes: sandboxes.iter().collect(),
        locals: locals.iter().collect(),
        services: services.iter().collect(),
        slices: slices.iter().collect(),
        scope: Some(&namespace),
        ..RouteObjects::default()
    })
}

/// The revision that a router of this namespace would have now.
async fn current_revision(shop: &TestNamespace) -> String {
    compute_routes(shop).await.revisions[&shop.namespace].clone()
}

/// Who would answer under the key of a sandbox.
pub(crate) async fn route_target(
    shop: &TestNamespace,
    service: &str,
    port: u16,
    sandbox: &str,
) -> Option<String> {
    let key = shop.get("Sandbox", sandbox).await?["status"]["routingKey"].as_str()?.to_owned();
    let made = compute_routes(shop).await;
    let target = made.table.route(&shop.namespace, service, port)?.target(&key)?;
    target.name().to_str().ok().map(str::to_owned)
}

/// A router's pod and its Lease, which says that it has this.
async fn create_router(shop: &TestNamespace, name: &str, revision: &str) {
    let labels = json!({(format!("{GROUP}/router")): "router"});
    let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "r", "image": "r"}]}});
    shop.create_object("Pod", pod).await.unwrap();
    let annotations = json!({(format!("{GROUP}/table-revision")): revision});
    let meta = json!({"name": name, "labels": labels, "annotations": annotations});
    shop.create_object("Lease", json!({"metadata": meta, "spec": {"holderIdentity": name}})).await.unwrap();
}

/// The cart as it is when its traffic goes to the routers, as far as its status goes.
async fn mark_taken_over(shop: &TestNamespace) {
    let spec = shop.get("Service", "cart").await.unwrap()["spec"].clone();
    let original = json!({"selector": spec["selector"], "ports": spec["ports"]}).to_string();
    let annotations = json!({(format!("{GROUP}/original")): original});
    shop.merge_patch("Service", "cart", json!({"metadata": {"annotations": annotations}})).await.unwrap();
}

async fn set_router_revision(shop: &TestNamespace, name: &str, revision: &str) {
    let annotations = json!({(format!("{GROUP}/table-revision")): revision});
    shop.merge_patch("Lease", name, json!({"metadata": {"annotations": annotations}})).await.unwrap();
}

#[tokio::test]
async fn f13_routes_are_programmed_when_every_router_says_so_and_not_before() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let sandbox = shop.wait_for_condition("pr-1", "RoutesProgrammed", "False", "NoRouters").await;
    assert_ne!(sandbox["status"]["phase"], "Ready");
    // The EndpointSlice appears later and changes the table.
    let to = sandbox["status"]["forks"][0]["services"][0]["to"].as_str().unwrap();
    let of_fork = format!("kubernetes.io/service-name={to}");
    shop.wait_for("the pods of the fork are told of", async || {
        shop.list("EndpointSlice", &of_fork).await.iter().any(|it| it["endpoints"][0].is_object())
    })
    .await;

    create_router(&shop, "router-0", "of yesterday").await;
    let sandbox = shop.wait_for_condition("pr-1", "RoutesProgrammed", "False", "NotRouted").await;
    assert!(
        condition_message(&sandbox, "RoutesProgrammed").contains("annotate service cart"),
        "the remedy is told"
    );
    assert_eq!(sandbox["status"]["phase"], "Pending");
    mark_taken_over(&shop).await;
    shop.wait_for_condition("pr-1", "RoutesProgrammed", "False", "RoutersBehind").await;
    create_router(&shop, "router-1", "of yesterday").await;
    set_router_revision(&shop, "router-0", &current_revision(&shop).await).await;
    world.settle().await;
    let sandbox = shop.get("Sandbox", "pr-1").await.unwrap();
    assert_eq!(condition(&sandbox, "RoutesProgrammed").0, "False", "one of two is not enough");
    set_router_revision(&shop, "router-1", &current_revision(&shop).await).await;
    shop.wait_for_condition("pr-1", "RoutesProgrammed", "True", "Programmed").await;
    let sandbox = shop.wait_for_phase("pr-1", "Ready").await;
    assert_eq!(condition(&sandbox, "Ready").0, "True");
    shop.wait_for_event("pr-1", "RoutesProgrammed").await;

    // Another sandbox moves the table on, and takes nothing away from this one.
    shop.create_fork("pr-2", "cart").await;
    shop.wait_for_condition("pr-2", "RoutesProgrammed", "False", "RoutersBehind").await;
    world.settle().await;
    let is_ready = |it: &Value| it["status"]["phase"] == "Ready";
    assert!(is_ready(&shop.get("Sandbox", "pr-1").await.unwrap()));

    // Routers that never report the withdrawal of routes do not block the deletion for long.
    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn endpoints_have_addresses_if_there_is_a_domain() {
    let mut world = SandboxHarness::idle().await;
    world.preview_domain = Some("preview.example.com".to_owned());
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    let target = "http://cart.shop.svc:80";
    let endpoints = json!([{"name": "web", "target": target}]);
    let mut spec = super::test_namespace::fork_spec("cart", &json!({}));
    spec["endpoints"] = endpoints.clone();
    shop.create_sandbox("pr-1", spec).await;
    let at = |host: &str| json!([{"name": "web", "target": target, "url": format!("https://{host}.preview.example.com")}]);
    let of_sandbox = at("web--pr-1--shop");
    shop.wait_until("Sandbox", "pr-1", "with an address", |it| it["status"]["endpoints"] == of_sandbox).await;
    let spec = json!({"match": {"label": {"key": "a", "value": "b"}}, "endpoints": endpoints});
    shop.create_object("RouteGroup", json!({"metadata": {"name": "g"}, "spec": spec})).await.unwrap();
    let of_group = at("web--g--shop");
    shop.wait_until("RouteGroup", "g", "with an address", |it| it["status"]["endpoints"] == of_group).await;

    // Without one there is none.
    world.stop_controllers().await;
    world.preview_domain = None;
    world.start_controllers();
    let bare = json!([{"name": "web", "target": target}]);
    shop.wait_until("Sandbox", "pr-1", "without an address", |it| it["status"]["endpoints"] == bare).await;
    world.stop_controllers().await;
}
