//! Services whose traffic goes to the routers, on whatever Kubernetes API. The routers are pods without processes here; a hand
//! writes their Leases.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::{
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::shop::{GROUP, Shop, name};

/// Makes this many routers, and waits until they are ready.
pub(crate) async fn routers(shop: &Shop, count: u32) -> Vec<Value> {
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
    shop.make("Deployment", deployment).await.unwrap();
    let selector = format!("{GROUP}/router");
    shop.eventually("the routers are ready", async || ready(shop, &selector).await.len() == count as usize)
        .await;
    ready(shop, &selector).await
}

async fn ready(shop: &Shop, selector: &str) -> Vec<Value> {
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    shop.list("Pod", selector).await.into_iter().filter(is_ready).collect()
}

/// What a router says in its Lease: where it listens.
pub(crate) async fn listens(shop: &Shop, pod: &Value, ports: &str) {
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

pub(crate) async fn wanted(shop: &Shop, value: Value) {
    let patch = json!({"metadata": {"annotations": {(format!("{GROUP}/routing")): value}}});
    shop.merge("Service", "cart", patch).await.unwrap();
}

/// The announced ports, once they are.
pub(crate) async fn announced(shop: &Shop) -> String {
    let service = shop.until("Service", "cart", "announced", |it| annotation(it, "listen").is_some()).await;
    let ports: Value = serde_json::from_str(annotation(&service, "listen").unwrap()).unwrap();
    ports["80"].to_string()
}

pub(crate) fn is_taken(service: &Value) -> bool {
    service["spec"]["selector"] == json!({(format!("{GROUP}/router")): "router"})
        && annotation(service, "original").is_some()
}

pub(crate) async fn addresses(shop: &Shop, service: &str) -> Vec<String> {
    let slices = shop.list("EndpointSlice", &format!("kubernetes.io/service-name={service}")).await;
    let endpoints = slices.iter().flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
    let mut all: Vec<_> =
        endpoints.map(|it| it["addresses"][0].as_str().unwrap_or_default().to_owned()).collect();
    all.sort();
    all
}

/// What the slices of a Service said, one entry for each change.
pub(crate) type Seen = Arc<Mutex<Vec<Vec<String>>>>;

/// Notes every set of addresses that the Service has from now on, and the one that it has now.
pub(crate) async fn follow(shop: &Shop) -> (Seen, tokio::task::JoinHandle<()>) {
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
    shop.eventually("a watch of the addresses has begun", begun).await;
    (seen, task)
}

/// F3 and F4: nothing is between the baseline and the routers, and what is given back is what was taken.
pub(crate) async fn taken_over_and_given_back(shop: &Shop) {
    shop.eventually("both pods are told of", async || addresses(shop, "cart").await.len() == 2).await;
    let baseline = addresses(shop, "cart").await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = routers(shop, 2).await;
    let (seen, task) = follow(shop).await;
    wanted(shop, json!("enabled")).await;
    let port = announced(shop).await;
    // One router alone is not enough: traffic would go to the other one, too.
    listens(shop, &pods[0], &port).await;
    // No event says that a Lease was seen and was not enough. A slow machine makes this weaker, and not red.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!is_taken(&shop.get("Service", "cart").await.unwrap()), "a router did not listen yet");
    listens(shop, &pods[1], &port).await;
    let taken = shop.until("Service", "cart", "taken over", is_taken).await;
    assert_eq!(taken["spec"]["ports"][0]["targetPort"].to_string(), port);
    shop.until_told("cart", "TakenOver").await;
    let mut behind: Vec<_> =
        pods.iter().map(|it| it["status"]["podIP"].as_str().unwrap().to_owned()).collect();
    behind.sort();
    shop.eventually("the routers are behind the Service", async || addresses(shop, "cart").await == behind)
        .await;
    let keepers = shop.list("Service", &format!("{GROUP}/base-of=cart")).await;
    let kept = async || addresses(shop, name(&keepers[0])).await == baseline;
    shop.eventually("the keeper leads to the baseline", kept).await;

    wanted(shop, Value::Null).await;
    let back = shop.until("Service", "cart", "given back", |it| annotation(it, "original").is_none()).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    assert_eq!(back["metadata"]["annotations"], before["metadata"]["annotations"]);
    shop.until_gone("Service", name(&keepers[0])).await;
    shop.eventually("its pods are behind the Service", async || addresses(shop, "cart").await == baseline)
        .await;
    task.abort();
    for set in seen.lock().await.iter() {
        assert!(*set == baseline || *set == behind, "the Service had {set:?} in between");
    }
    shop.delete("Deployment", "router").await;
    shop.eventually("the routers are gone", async || {
        ready(shop, &format!("{GROUP}/router")).await.is_empty()
    })
    .await;
}

/// Somebody's tool insists on what it knows: it is named, asked three times, and then left alone.
pub(crate) async fn taken_back_by_somebody(shop: &Shop) {
    let before = shop.get("Service", "cart").await.unwrap();
    let pods = routers(shop, 1).await;
    wanted(shop, json!("enabled")).await;
    for attempt in 0..4 {
        let port = announced(shop).await;
        listens(shop, &pods[0], &port).await;
        shop.until("Service", "cart", "taken over", is_taken).await;
        let selector = json!({"app": "cart", (format!("{GROUP}/router")): null});
        let patch = json!({"spec": {"selector": selector, "ports": before["spec"]["ports"]}});
        let params =
            PatchParams { field_manager: Some("argocd-controller".to_owned()), ..PatchParams::default() };
        shop.api("Service").patch("cart", &params, &Patch::Merge(patch)).await.unwrap();
        let told = shop.until_told("cart", "ServiceReverted").await;
        assert!(told["note"].as_str().unwrap().contains("argocd-controller"), "{attempt}: {told}");
    }
    shop.until("Service", "cart", "left alone", |it| annotation(it, "original").is_none()).await;
    // It would be taken over again after eight seconds at the latest, and nobody tells that it is not. A slow machine makes
    // this weaker, and not red.
    tokio::time::sleep(std::time::Duration::from_secs(9)).await;
    let left = shop.get("Service", "cart").await.unwrap();
    assert_eq!(left["spec"].to_string(), before["spec"].to_string());
    assert!(annotation(&left, "listen").is_none(), "{left}");
    wanted(shop, Value::Null).await;
    shop.eventually("the keeper is gone", async || {
        shop.list("Service", &format!("{GROUP}/base-of=cart")).await.is_empty()
    })
    .await;
    shop.delete("Deployment", "router").await;
}
