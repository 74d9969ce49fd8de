//! F13, as far as the status of a Sandbox goes: `RoutesProgrammed` holds when every ready router says that it has the routes.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Api, api::ListParams};
use sandbox::{
    api::{LocalWorkload, Sandbox},
    routes::{Objects, Routes, routes},
};
use serde_json::{Value, json};

use super::{
    life::with_cart,
    shop::{GROUP, Shop, message, said},
    world::World,
};

/// The routes that a router of this namespace would have now.
async fn made(shop: &Shop) -> Routes {
    let all = ListParams::default();
    let Shop { client, namespace } = shop.clone();
    let sandboxes = Api::<Sandbox>::namespaced(client.clone(), &namespace).list(&all).await.unwrap();
    let locals = Api::<LocalWorkload>::namespaced(client.clone(), &namespace).list(&all).await.unwrap();
    let services = Api::<Service>::namespaced(client.clone(), &namespace).list(&all).await.unwrap();
    let slices = Api::<EndpointSlice>::namespaced(client, &namespace).list(&all).await.unwrap();
    routes(&Objects {
        sandboxes: sandboxes.iter().collect(),
        locals: locals.iter().collect(),
        services: services.iter().collect(),
        slices: slices.iter().collect(),
        scope: Some(&namespace),
        ..Objects::default()
    })
}

/// The revision that a router of this namespace would have now.
async fn revision(shop: &Shop) -> String {
    made(shop).await.revisions[&shop.namespace].clone()
}

/// Who would answer under the key of a sandbox.
pub(crate) async fn target(shop: &Shop, service: &str, port: u16, sandbox: &str) -> Option<String> {
    let key = shop.get("Sandbox", sandbox).await?["status"]["routingKey"].as_str()?.to_owned();
    let made = made(shop).await;
    let target = made.table.route(&shop.namespace, service, port)?.target(&key)?;
    target.name().to_str().ok().map(str::to_owned)
}

/// A router's pod and its Lease, which says that it has this.
async fn router(shop: &Shop, name: &str, revision: &str) {
    let labels = json!({(format!("{GROUP}/router")): "router"});
    let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "r", "image": "r"}]}});
    shop.make("Pod", pod).await.unwrap();
    let annotations = json!({(format!("{GROUP}/table-revision")): revision});
    let meta = json!({"name": name, "labels": labels, "annotations": annotations});
    shop.make("Lease", json!({"metadata": meta, "spec": {"holderIdentity": name}})).await.unwrap();
}

/// The cart as it is when its traffic goes to the routers, as far as its status goes.
async fn take_over(shop: &Shop) {
    let spec = shop.get("Service", "cart").await.unwrap()["spec"].clone();
    let original = json!({"selector": spec["selector"], "ports": spec["ports"]}).to_string();
    let annotations = json!({(format!("{GROUP}/original")): original});
    shop.merge("Service", "cart", json!({"metadata": {"annotations": annotations}})).await.unwrap();
}

async fn applies(shop: &Shop, name: &str, revision: &str) {
    let annotations = json!({(format!("{GROUP}/table-revision")): revision});
    shop.merge("Lease", name, json!({"metadata": {"annotations": annotations}})).await.unwrap();
}

#[tokio::test]
async fn f13_routes_are_programmed_when_every_router_says_so_and_not_before() {
    let mut world = World::start().await;
    let shop = with_cart(&world).await;
    shop.fork("pr-1", "cart").await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    let sandbox = shop.until_said("pr-1", "RoutesProgrammed", "False", "NoRouters").await;
    assert_ne!(sandbox["status"]["phase"], "Ready");
    // Where its pods are is told a moment later, and makes another table.
    let to = sandbox["status"]["forks"][0]["services"][0]["to"].as_str().unwrap();
    let of_fork = format!("kubernetes.io/service-name={to}");
    shop.eventually("the pods of the fork are told of", async || {
        shop.list("EndpointSlice", &of_fork).await.iter().any(|it| it["endpoints"][0].is_object())
    })
    .await;

    router(&shop, "router-0", "of yesterday").await;
    let sandbox = shop.until_said("pr-1", "RoutesProgrammed", "False", "NotRouted").await;
    assert!(message(&sandbox, "RoutesProgrammed").contains("annotate service cart"), "the remedy is told");
    assert_eq!(sandbox["status"]["phase"], "Pending");
    take_over(&shop).await;
    shop.until_said("pr-1", "RoutesProgrammed", "False", "RoutersBehind").await;
    router(&shop, "router-1", "of yesterday").await;
    applies(&shop, "router-0", &revision(&shop).await).await;
    world.settle().await;
    let sandbox = shop.get("Sandbox", "pr-1").await.unwrap();
    assert_eq!(said(&sandbox, "RoutesProgrammed").0, "False", "one of two is not enough");
    applies(&shop, "router-1", &revision(&shop).await).await;
    shop.until_said("pr-1", "RoutesProgrammed", "True", "Programmed").await;
    let sandbox = shop.until_phase("pr-1", "Ready").await;
    assert_eq!(said(&sandbox, "Ready").0, "True");
    shop.until_told("pr-1", "RoutesProgrammed").await;

    // Another sandbox moves the table on, and takes nothing away from this one.
    shop.fork("pr-2", "cart").await;
    shop.until_said("pr-2", "RoutesProgrammed", "False", "RoutersBehind").await;
    world.settle().await;
    let is_ready = |it: &Value| it["status"]["phase"] == "Ready";
    assert!(is_ready(&shop.get("Sandbox", "pr-1").await.unwrap()));

    // Routers that never say that they withdrew the routes hold nobody for long.
    shop.delete("Sandbox", "pr-1").await;
    shop.until_gone("Sandbox", "pr-1").await;
    world.end().await;
}

#[tokio::test]
async fn endpoints_have_addresses_if_there_is_a_domain() {
    let mut world = World::idle().await;
    world.preview_domain = Some("preview.example.com".to_owned());
    world.begin();
    let shop = with_cart(&world).await;
    let target = "http://cart.shop.svc:80";
    let endpoints = json!([{"name": "web", "target": target}]);
    let mut spec = super::shop::forking("cart", &json!({}));
    spec["endpoints"] = endpoints.clone();
    shop.sandbox("pr-1", spec).await;
    let at = |host: &str| json!([{"name": "web", "target": target, "url": format!("https://{host}.preview.example.com")}]);
    let of_sandbox = at("web--pr-1--shop");
    shop.until("Sandbox", "pr-1", "with an address", |it| it["status"]["endpoints"] == of_sandbox).await;
    let spec = json!({"match": {"label": {"key": "a", "value": "b"}}, "endpoints": endpoints});
    shop.make("RouteGroup", json!({"metadata": {"name": "g"}, "spec": spec})).await.unwrap();
    let of_group = at("web--g--shop");
    shop.until("RouteGroup", "g", "with an address", |it| it["status"]["endpoints"] == of_group).await;

    // Without one there is none.
    world.end().await;
    world.preview_domain = None;
    world.begin();
    let bare = json!([{"name": "web", "target": target}]);
    shop.until("Sandbox", "pr-1", "without an address", |it| it["status"]["endpoints"] == bare).await;
    world.end().await;
}
