//! F4: a Service that was taken over is restored exactly, whatever other clients do to it.

use std::collections::BTreeMap;

use embedded_kube::request::Verb;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    takeover::{
        annotation, create_routers, is_taken_over, set_cart_routing, wait_for_listen_port, write_router_lease,
    },
    test_namespace::{GROUP, TestNamespace, name},
    traffic::start_service_controller,
};

/// The Services that keep the selector of the cart.
async fn base_services(shop: &TestNamespace) -> Vec<Value> {
    shop.list("Service", &format!("{GROUP}/base-of=cart")).await
}

/// Lets the cart be taken over by the one router that there is.
async fn take_over(shop: &TestNamespace, pod: &Value) -> Value {
    let port = wait_for_listen_port(shop).await;
    write_router_lease(shop, pod, &port).await;
    shop.wait_until("Service", "cart", "taken over", is_taken_over).await
}

/// What a person types who has the manifest of the cart.
#[expect(clippy::disallowed_methods, reason = "a person types this")]
async fn kubectl_apply(kubeconfig: &str, manifest: &Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let mut kubectl = tokio::process::Command::new("kubectl");
    let arguments = ["--kubeconfig", kubeconfig, "-n", "shop", "apply", "-f"];
    let output = kubectl.args(arguments).arg(file.path()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Clients merge selectors label by label: what they know, beside what they do not. The Service is theirs again as they know
/// it, is taken over once more, and is given back as it was.
async fn check_merge_by_other_client(shop: &TestNamespace, kubeconfig: &str) {
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = create_routers(shop, 1).await;
    set_cart_routing(shop, json!("enabled")).await;
    take_over(shop, &pods[0]).await;
    let theirs = json!({"selector": before["spec"]["selector"], "ports": before["spec"]["ports"]});
    let params = PatchParams { field_manager: Some("helm".to_owned()), ..PatchParams::default() };
    let patch = Patch::Strategic(json!({ "spec": theirs }));
    let merged = shop.api("Service").patch("cart", &params, &patch).await.unwrap();
    assert_eq!(merged.data["spec"]["selector"].as_object().unwrap().len(), 2, "{}", merged.data["spec"]);
    let told = shop.wait_for_event("cart", "ServiceReverted").await;
    assert!(told["note"].as_str().unwrap().starts_with("helm "), "{told}");
    let again = take_over(shop, &pods[0]).await;
    let original: Value = serde_json::from_str(annotation(&again, "original").unwrap()).unwrap();
    assert_eq!(original["selector"], before["spec"]["selector"]);
    assert_eq!(base_services(shop).await[0]["spec"]["selector"], before["spec"]["selector"]);

    let manifest = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"selector": {"app": "cart"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    });
    kubectl_apply(kubeconfig, &manifest).await;
    shop.wait_for("it is noticed", async || {
        let count = |it: &Value| annotation(it, "reverts").map(str::to_owned);
        base_services(shop).await.first().and_then(count).as_deref() == Some("2")
    })
    .await;
    take_over(shop, &pods[0]).await;
    assert_eq!(base_services(shop).await[0]["spec"]["selector"], before["spec"]["selector"]);
    set_cart_routing(shop, Value::Null).await;
    let back =
        shop.wait_until("Service", "cart", "given back", |it| annotation(it, "original").is_none()).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    shop.delete("Deployment", "router").await;
}

/// Without the base Service the baseline has no endpoints.
async fn check_base_service_deleted(shop: &TestNamespace) {
    let pods = create_routers(shop, 1).await;
    set_cart_routing(shop, json!("enabled")).await;
    take_over(shop, &pods[0]).await;
    let keeper = base_services(shop).await.remove(0);
    shop.delete("Service", name(&keeper)).await;
    let uid = keeper["metadata"]["uid"].clone();
    let is_new = |it: &Value| it["metadata"]["uid"] != uid;
    shop.wait_until("Service", name(&keeper), "made again", is_new).await;
    // And with the Service it goes, as its owner reference says.
    shop.delete("Service", "cart").await;
    shop.wait_for("the keeper is gone", async || base_services(shop).await.is_empty()).await;
    shop.delete("Deployment", "router").await;
}

#[tokio::test]
async fn a_client_that_merges_the_original_manifest_breaks_nothing() {
    let world = SandboxHarness::idle_listening().await;
    let _services = start_service_controller(&world);
    check_merge_by_other_client(&namespace_with_cart(&world).await, &world.write_kubeconfig()).await;
}

#[tokio::test]
async fn a_keeper_that_somebody_deletes_is_made_again() {
    let world = SandboxHarness::idle().await;
    let _services = start_service_controller(&world);
    check_base_service_deleted(&namespace_with_cart(&world).await).await;
}

/// How many Services go through the router at once.
const SERVICE_COUNT: usize = 20;

async fn wait_until_all(shop: &TestNamespace, what: &str, is: impl Fn(&Value) -> bool) {
    shop.wait_for(what, async || {
        let all = shop.list("Service", &format!("!{GROUP}/base-of")).await;
        all.len() == SERVICE_COUNT && all.iter().all(&is)
    })
    .await;
}

/// One who asks the API server for each Service keeps the last of them waiting for its traffic.
#[tokio::test]
async fn many_services_are_taken_over_and_given_back_without_a_question() {
    let world = SandboxHarness::idle().await;
    let shop = world.create_namespace().await;
    let _services = start_service_controller(&world);
    let pod = create_routers(&shop, 1).await.remove(0);
    for number in 0..SERVICE_COUNT {
        let name = format!("s-{number}");
        let mut service = super::test_namespace::service_object(&name);
        service["metadata"]["annotations"] = json!({(format!("{GROUP}/routing")): "enabled"});
        shop.create_object("Service", service).await.unwrap();
    }
    wait_until_all(&shop, "all are announced", |it| annotation(it, "listen").is_some()).await;
    let ports = shop.list("Service", "").await.into_iter().filter_map(|it| {
        let listen: Value =
            annotation(&it, "listen").and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
        listen["80"].as_u64().map(|it| it.to_string())
    });
    let ports = ports.collect::<Vec<_>>();
    assert_eq!(ports.iter().collect::<std::collections::BTreeSet<_>>().len(), SERVICE_COUNT, "no port twice");
    write_router_lease(&shop, &pod, &ports.join(",")).await;
    wait_until_all(&shop, "all are taken over", is_taken_over).await;
    // The router renews its Lease, as it does every ten seconds, and dies.
    for number in 0..10 {
        let time = format!("2026-11-17T05:00:{number:02}.000000Z");
        shop.merge_patch("Lease", name(&pod), json!({"spec": {"renewTime": time}})).await.unwrap();
    }
    shop.set_status("Pod", name(&pod), json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    wait_until_all(&shop, "all are given back", |it| annotation(it, "original").is_none()).await;
    // An API server may end a watch whenever it likes, and the next one may begin with the same list.
    let asked = |verb: Verb| {
        let mut all = BTreeMap::<_, usize>::new();
        for it in world.requests().into_iter().filter(|it| it.verb == Some(verb)) {
            *all.entry((it.resource, it.namespace)).or_default() += 1;
        }
        all
    };
    assert_eq!(asked(Verb::Get), BTreeMap::new());
    assert!(asked(Verb::List).len() <= 7, "{:#?}", asked(Verb::List));
    shop.wait_for("every list began a watch", async || {
        let watches = asked(Verb::Watch);
        asked(Verb::List).iter().all(|(what, lists)| watches.get(what).is_some_and(|it| lists <= it))
    })
    .await;
}
