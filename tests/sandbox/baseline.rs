//! F2: baselines and their pods are never touched, and no fork is ever taken for one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    life::with_cart,
    settings::number,
    shop::{Shop, forking, message, service},
    takeover::{addresses, follow},
    world::World,
};

/// How many Sandboxes come and go. The whole property asks for 200, and gets them with `SANDBOXES=200`.
fn many() -> usize {
    number("SANDBOXES", 12)
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
    let addresses = async || addresses(&shop, "cart").await;
    shop.eventually("the Service leads to both pods", async || addresses().await.len() == 2).await;
    world.settle().await;
    let (before, leading) = (versions(&shop).await, addresses().await);
    let (seen, watching) = follow(&shop).await;
    for index in 0..many() {
        shop.fork(&format!("pr-{index}"), "cart").await;
    }
    for index in 0..many() {
        shop.until_said(&format!("pr-{index}"), "ForksReady", "True", "Ready").await;
    }
    assert_eq!(versions(&shop).await, before);
    for index in 0..many() {
        shop.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..many() {
        shop.until_gone("Sandbox", &format!("pr-{index}")).await;
    }
    watching.abort();
    let seen = seen.lock().await.clone();
    for set in seen {
        assert_eq!(set, leading, "a fork was behind the baseline's Service");
    }
    assert_eq!((versions(&shop).await, addresses().await), (before, leading));
    assert!(shop.list("Deployment", "sandbox.capt.x-k8s.io/fork").await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn f2_a_fork_that_a_later_service_takes_for_the_baseline_has_no_pods_until_that_is_gone() {
    let mut world = World::start().await;
    let shop = with_cart(&world).await;
    shop.sandbox("pr-1", forking("cart", &json!({"preservedLabels": ["^team$"]}))).await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    let mut team = service("team");
    team["spec"]["selector"] = json!({"team": "cart"});
    shop.make("Service", team).await.unwrap();
    let sandbox = shop.until_said("pr-1", "Accepted", "False", "WouldReceiveBaselineTraffic").await;
    let text = message(&sandbox, "Accepted");
    assert!(text.contains("Service team") && text.contains("has no pods"), "{text}");
    assert_eq!(sandbox["status"]["readyForks"], "0/1");
    let forks = shop.forks("pr-1").await;
    assert_eq!((forks.len(), &forks[0]["spec"]["replicas"]), (1, &json!(0)));
    shop.eventually("the Service leads to the baseline alone", async || {
        addresses(&shop, "team").await.len() == 2
    })
    .await;
    world.settle().await;
    let told = shop.get("Sandbox", "pr-1").await.unwrap()["status"].clone();
    assert_eq!(message(&shop.get("Sandbox", "pr-1").await.unwrap(), "Accepted"), text);
    world.settle().await;
    assert_eq!(shop.get("Sandbox", "pr-1").await.unwrap()["status"], told, "it says so once");

    shop.delete("Service", "team").await;
    shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    assert_eq!(shop.forks("pr-1").await[0]["spec"]["replicas"], 1);
    world.end().await;
}
