//! F2: baselines and their pods are never touched, and no fork is ever taken for one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    env_settings::env_number,
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    takeover::{endpoint_addresses, record_addresses},
    test_namespace::{TestNamespace, condition_message, fork_spec, service_object},
};

/// How many Sandboxes come and go. The whole property asks for 200, and gets them with `SANDBOXES=200`.
fn sandbox_count() -> usize {
    env_number("SANDBOXES", 12)
}

/// What must not change of a service: its Deployment, its `ReplicaSets`, its pods, its Service.
async fn resource_versions(shop: &TestNamespace) -> BTreeMap<String, String> {
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
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let addresses = async || endpoint_addresses(&shop, "cart").await;
    shop.wait_for("the Service leads to both pods", async || addresses().await.len() == 2).await;
    world.settle().await;
    let (before, leading) = (resource_versions(&shop).await, addresses().await);
    let (seen, watching) = record_addresses(&shop).await;
    for index in 0..sandbox_count() {
        shop.create_fork(&format!("pr-{index}"), "cart").await;
    }
    for index in 0..sandbox_count() {
        shop.wait_for_condition(&format!("pr-{index}"), "ForksReady", "True", "Ready").await;
    }
    assert_eq!(resource_versions(&shop).await, before);
    for index in 0..sandbox_count() {
        shop.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..sandbox_count() {
        shop.wait_until_deleted("Sandbox", &format!("pr-{index}")).await;
    }
    watching.abort();
    let seen = seen.lock().await.clone();
    for set in seen {
        assert_eq!(set, leading, "a fork was behind the baseline's Service");
    }
    assert_eq!((resource_versions(&shop).await, addresses().await), (before, leading));
    assert!(shop.list("Deployment", "sandbox.capt.x-k8s.io/fork").await.is_empty());
    world.stop_controllers().await;
}

#[tokio::test]
async fn f2_a_fork_that_a_later_service_takes_for_the_baseline_has_no_pods_until_that_is_gone() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_sandbox("pr-1", fork_spec("cart", &json!({"preservedLabels": ["^team$"]}))).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let mut team = service_object("team");
    team["spec"]["selector"] = json!({"team": "cart"});
    shop.create_object("Service", team).await.unwrap();
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "WouldReceiveBaselineTraffic").await;
    let text = condition_message(&sandbox, "Accepted");
    assert!(text.contains("Service team") && text.contains("is scaled to zero"), "{text}");
    assert_eq!(sandbox["status"]["readyForks"], "0/1");
    let forks = shop.forks("pr-1").await;
    assert_eq!((forks.len(), &forks[0]["spec"]["replicas"]), (1, &json!(0)));
    shop.wait_for("the Service leads to the baseline alone", async || {
        endpoint_addresses(&shop, "team").await.len() == 2
    })
    .await;
    world.settle().await;
    let told = shop.get("Sandbox", "pr-1").await.unwrap()["status"].clone();
    assert_eq!(condition_message(&shop.get("Sandbox", "pr-1").await.unwrap(), "Accepted"), text);
    world.settle().await;
    assert_eq!(shop.get("Sandbox", "pr-1").await.unwrap()["status"], told, "it says so once");

    shop.delete("Service", "team").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    assert_eq!(shop.forks("pr-1").await[0]["spec"]["replicas"], 1);
    world.stop_controllers().await;
}
