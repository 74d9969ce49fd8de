//! F2: baselines and their pods are never touched, and no fork is ever taken for one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{life::with_cart, shop::Shop, world::World};

/// How many Sandboxes come and go. The whole property asks for 200, and gets them with `SANDBOXES=200`.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn many() -> usize {
    std::env::var("SANDBOXES").ok().and_then(|it| it.parse().ok()).unwrap_or(12)
}

/// What must not change of a service: its Deployment, its `ReplicaSets`, its pods, its Service.
async fn versions(shop: &Shop) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for kind in ["Deployment", "ReplicaSet", "Pod", "Service"] {
        for it in shop.list(kind, "!sandbox.capt.x-k8s.io/fork").await {
            let text = |path: &str| it.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            all.insert(format!("{kind} {}", text("/metadata/name")), text("/metadata/resourceVersion"));
        }
    }
    all
}

#[tokio::test]
async fn f2_sandboxes_that_come_and_go_leave_baselines_alone() {
    let mut world = World::start().await;
    let shop = with_cart(&world).await;
    let slices = "kubernetes.io/service-name=cart";
    let addresses = async || {
        let mut all: Vec<String> = Vec::new();
        for slice in shop.list("EndpointSlice", slices).await {
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                all.extend(endpoint["addresses"].as_array().into_iter().flatten().map(Value::to_string));
            }
        }
        all.sort();
        all
    };
    shop.eventually("the Service leads to both pods", async || addresses().await.len() == 2).await;
    world.settle().await;
    let (before, leading) = (versions(&shop).await, addresses().await);
    for index in 0..many() {
        shop.fork(&format!("pr-{index}"), "cart").await;
    }
    for index in 0..many() {
        shop.until_said(&format!("pr-{index}"), "ForksReady", "True", "Ready").await;
        assert_eq!(addresses().await, leading, "a fork is behind the baseline's Service");
    }
    assert_eq!(versions(&shop).await, before);
    for index in 0..many() {
        shop.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..many() {
        shop.until_gone("Sandbox", &format!("pr-{index}")).await;
    }
    assert_eq!((versions(&shop).await, addresses().await), (before, leading));
    assert!(shop.list("Deployment", "sandbox.capt.x-k8s.io/fork").await.is_empty());
    world.end().await;
}
