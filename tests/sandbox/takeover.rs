//! Service takeover on any Kubernetes API. The routers are pods without processes; the test writes their Leases.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::{
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::test_namespace::{GROUP, TestNamespace, name};

/// Makes this many routers, and waits until they are ready.
pub(crate) async fn create_routers(shop: &TestNamespace, count: u32) -> Vec<Value> {
    let label = json!({(format!("{GROUP}/router")): "router"});
    let deployment = json!({
        "metadata": {"name": "router"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": label},
            "template": {
                "metadata": {"labels": label},
                "spec": {"containers": [{"name": "router", "image": "repo/capt:v1"}]},
            },
        },
    });
    shop.create_object("Deployment", deployment).await.unwrap();
    let selector = format!("{GROUP}/router");
    shop.wait_for("the routers are ready", async || {
        ready_pods(shop, &selector).await.len() == count as usize
    })
    .await;
    ready_pods(shop, &selector).await
}

async fn ready_pods(shop: &TestNamespace, selector: &str) -> Vec<Value> {
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    shop.list("Pod", selector).await.into_iter().filter(is_ready).collect()
}

/// Writes the Lease of a router with the ports on which it listens.
pub(crate) async fn write_router_lease(shop: &TestNamespace, pod: &Value, ports: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name(pod), "labels": {(format!("{GROUP}/router")): "router"},
            "annotations": {(format!("{GROUP}/listeners")): ports},
        },
        "spec": {"holderIdentity": name(pod)},
    });
    let params = PatchParams::apply("router").force();
    shop.api("Lease").patch(name(pod), &params, &Patch::Apply(&lease)).await.unwrap();
}

pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(format!("{GROUP}/{name}"))?.as_str()
}

pub(crate) async fn set_cart_routing(shop: &TestNamespace, value: Value) {
    let patch = json!({"metadata": {"annotations": {(format!("{GROUP}/routing")): value}}});
    shop.merge_patch("Service", "cart", patch).await.unwrap();
}

/// The announced ports, once they are.
pub(crate) async fn wait_for_listen_port(shop: &TestNamespace) -> String {
    let service =
        shop.wait_until("Service", "cart", "announced", |it| annotation(it, "listen").is_some()).await;
    let ports: Value = serde_json::from_str(annotation(&service, "listen").unwrap()).unwrap();
    ports["80"].to_string()
}

pub(crate) fn is_taken_over(service: &Value) -> bool {
    service["spec"]["selector"] == json!({(format!("{GROUP}/router")): "router"})
        && annotation(service, "original").is_some()
}

pub(crate) async fn endpoint_addresses(shop: &TestNamespace, service: &str) -> Vec<String> {
    let slices = shop.list("EndpointSlice", &format!("kubernetes.io/service-name={service}")).await;
    let endpoints = slices.iter().flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
    let mut all: Vec<_> =
        endpoints.map(|it| it["addresses"][0].as_str().unwrap_or_default().to_owned()).collect();
    all.sort();
    all
}

/// What the slices of a Service said, one entry for each change.
pub(crate) type AddressHistory = Arc<Mutex<Vec<Vec<String>>>>;

/// Notes every set of addresses that the Service has from now on, and the one that it has now.
pub(crate) async fn record_addresses(shop: &TestNamespace) -> (AddressHistory, tokio::task::JoinHandle<()>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (watched, notes) = (shop.clone(), Arc::clone(&seen));
    let task = tokio::spawn(async move {
        let of = watcher::Config::default().labels("kubernetes.io/service-name=cart");
        let mut changes =
            std::pin::pin!(watcher(watched.api("EndpointSlice"), of).default_backoff().touched_objects());
        while let Some(change) = changes.next().await {
            let Ok(slice) = change else { continue };
            let endpoints = slice.data["endpoints"].as_array().cloned().unwrap_or_default();
            let mut all: Vec<_> = endpoints
                .iter()
                .map(|it| it["addresses"][0].as_str().unwrap_or_default().to_owned())
                .collect();
            all.sort();
            notes.lock().await.push(all);
        }
    });
    let begun = async || !seen.lock().await.is_empty();
    shop.wait_for("a watch of the addresses has begun", begun).await;
    (seen, task)
}

/// F3 and F4: nothing is between the baseline and the routers, and what is given back is what was taken.
pub(crate) async fn check_takeover_and_restore(shop: &TestNamespace) {
    shop.wait_for("both pods are told of", async || endpoint_addresses(shop, "cart").await.len() == 2).await;
    let baseline = endpoint_addresses(shop, "cart").await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = create_routers(shop, 2).await;
    let (seen, task) = record_addresses(shop).await;
    set_cart_routing(shop, json!("enabled")).await;
    let port = wait_for_listen_port(shop).await;
    // One router alone is not enough: traffic would go to the other one, too.
    write_router_lease(shop, &pods[0], &port).await;
    // No event says that a Lease was seen and was not enough. A slow machine makes this weaker, and not red.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!is_taken_over(&shop.get("Service", "cart").await.unwrap()), "a router did not listen yet");
    write_router_lease(shop, &pods[1], &port).await;
    let taken = shop.wait_until("Service", "cart", "taken over", is_taken_over).await;
    assert_eq!(taken["spec"]["ports"][0]["targetPort"].to_string(), port);
    shop.wait_for_event("cart", "TakenOver").await;
    let mut behind: Vec<_> =
        pods.iter().map(|it| it["status"]["podIP"].as_str().unwrap().to_owned()).collect();
    behind.sort();
    shop.wait_for("the routers are behind the Service", async || {
        endpoint_addresses(shop, "cart").await == behind
    })
    .await;
    let keepers = shop.list("Service", &format!("{GROUP}/base-of=cart")).await;
    let kept = async || endpoint_addresses(shop, name(&keepers[0])).await == baseline;
    shop.wait_for("the keeper leads to the baseline", kept).await;

    set_cart_routing(shop, Value::Null).await;
    let back =
        shop.wait_until("Service", "cart", "given back", |it| annotation(it, "original").is_none()).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    assert_eq!(back["metadata"]["annotations"], before["metadata"]["annotations"]);
    shop.wait_until_deleted("Service", name(&keepers[0])).await;
    shop.wait_for("its pods are behind the Service", async || {
        endpoint_addresses(shop, "cart").await == baseline
    })
    .await;
    task.abort();
    for set in seen.lock().await.iter() {
        assert!(*set == baseline || *set == behind, "the Service had {set:?} in between");
    }
    shop.delete("Deployment", "router").await;
    shop.wait_for("the routers are gone", async || {
        ready_pods(shop, &format!("{GROUP}/router")).await.is_empty()
    })
    .await;
}

/// A foreign tool reverts the Service repeatedly: it is named in events, and after three more attempts the operator gives up.
pub(crate) async fn check_reverted_by_other_tool(shop: &TestNamespace) {
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = create_routers(shop, 1).await;
    set_cart_routing(shop, json!("enabled")).await;
    for attempt in 0..4 {
        let port = wait_for_listen_port(shop).await;
        write_router_lease(shop, &pods[0], &port).await;
        shop.wait_until("Service", "cart", "taken over", is_taken_over).await;
        let selector = json!({"app": "cart", (format!("{GROUP}/router")): null});
        let patch = json!({"spec": {"selector": selector, "ports": before["spec"]["ports"]}});
        let params =
            PatchParams { field_manager: Some("argocd-controller".to_owned()), ..PatchParams::default() };
        shop.api("Service").patch("cart", &params, &Patch::Merge(patch)).await.unwrap();
        let told = shop.wait_for_event("cart", "ServiceReverted").await;
        assert!(told["note"].as_str().unwrap().contains("argocd-controller"), "{attempt}: {told}");
    }
    shop.wait_until("Service", "cart", "left alone", |it| annotation(it, "original").is_none()).await;
    // It would be taken over again after eight seconds at the latest, and nobody tells that it is not. A slow machine makes
    // this weaker, and not red.
    tokio::time::sleep(std::time::Duration::from_secs(9)).await;
    let left = shop.get("Service", "cart").await.unwrap();
    assert_eq!(left["spec"].to_string(), before["spec"].to_string());
    assert!(annotation(&left, "listen").is_none(), "{left}");
    set_cart_routing(shop, Value::Null).await;
    shop.wait_for("the keeper is gone", async || {
        shop.list("Service", &format!("{GROUP}/base-of=cart")).await.is_empty()
    })
    .await;
    shop.delete("Deployment", "router").await;
}
