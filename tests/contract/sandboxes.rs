//! Sandboxes on a real API server with real controllers of Deployments, `ReplicaSets` and `EndpointSlices`.

use std::{collections::BTreeMap, sync::Arc};

use capt_kube::k8s::KubeClient;
use serde_json::{Value, json};

use crate::{
    case_namespace::CaseNamespace,
    fake_node::FakeNode,
    harness::ContractHarness,
    test_namespace::{TestNamespace, condition, condition_message, deployment_object, fork_spec, is_current},
};

async fn open_namespace(world: Arc<ContractHarness>, namespace: &'static str) -> (TestNamespace, FakeNode) {
    let place = CaseNamespace::create(world, namespace).await;
    let client = place.harness.admin.clone();
    let node = FakeNode::start_in(client.clone(), namespace).await;
    let shop = TestNamespace { client, namespace: namespace.to_owned() };
    shop.create_settled_service("cart").await;
    (shop, node)
}

/// What must not change of a service.
async fn resource_versions(shop: &TestNamespace) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for kind in ["Deployment", "ReplicaSet", "Pod", "Service"] {
        for it in shop.list(kind, "app=cart,!sandbox.capt.x-k8s.io/fork").await {
            all.insert(
                format!("{kind} {}", it["metadata"]["name"]),
                it["metadata"]["resourceVersion"].clone(),
            );
        }
    }
    all
}

pub(crate) async fn f2_f5_f12_a_fork_lives_beside_its_baseline_and_ends_in_time(world: Arc<ContractHarness>) {
    let (shop, _node) = open_namespace(world, "forks").await;
    let before = resource_versions(&shop).await;
    let custom = json!({
        "images": [{"image": "repo/cart:pr-1"}],
        "resources": [{"requests": {"cpu": "0.5", "memory": "1024Mi"}}],
        "patch": {"value": "spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}"},
    });
    let mut spec = fork_spec("cart", &custom);
    spec["ttl"] = json!({"duration": "1m"});
    spec["local"] = json!([{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]);
    shop.create_service("web").await;
    shop.create_sandbox("pr-1", spec).await;
    // A group that ends by itself, too.
    let group = json!({"match": {"label": {"key": "feature", "value": "x"}}, "ttl": {"duration": "1m", "offsetFrom": "createdAt"}});
    shop.create_object("RouteGroup", json!({"metadata": {"name": "group"}, "spec": group})).await.unwrap();
    let sandbox = shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    assert_eq!(sandbox["status"]["conditions"].as_array().map(Vec::len), Some(7));
    assert!(shop.get("LocalWorkload", "pr-1-web").await.is_some());
    let fork = shop.forks("pr-1").await.remove(0);
    assert_eq!(fork["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 5);
    for slice in shop.list("EndpointSlice", "kubernetes.io/service-name=cart").await {
        assert_eq!(slice["endpoints"].as_array().map(Vec::len), Some(2), "{slice}");
    }
    // A second look changes nothing, also where the API server writes values down in its own way.
    shop.merge_patch(
        "Sandbox",
        "pr-1",
        json!({"spec": {"description": "looked at"}, "metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .unwrap();
    shop.wait_until("Sandbox", "pr-1", "looked at", is_current).await;
    let now = shop.forks("pr-1").await.remove(0);
    assert_eq!(now["metadata"]["generation"], fork["metadata"]["generation"]);
    shop.merge_patch("Sandbox", "pr-1", json!({"spec": {"local": null}})).await.unwrap();
    shop.wait_until_deleted("LocalWorkload", "pr-1-web").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    shop.wait_until_deleted("RouteGroup", "group").await;
    assert!(shop.forks("pr-1").await.is_empty() && shop.fork_services("pr-1").await.is_empty());
    assert_eq!(resource_versions(&shop).await, before);
}

pub(crate) async fn f8_what_a_fork_cannot_share_or_be_taken_for_is_refused(world: Arc<ContractHarness>) {
    let (shop, node) = open_namespace(world, "refusals").await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    shop.create_object("PersistentVolumeClaim", claim).await.unwrap();
    let mut stateful = deployment_object("stateful");
    stateful["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    shop.create_object("Deployment", stateful).await.unwrap();
    let budget = json!({"metadata": {"name": "carts"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"team": "cart"}}}});
    shop.create_object("PodDisruptionBudget", budget).await.unwrap();
    let bad = "spec: {template: {spec: {restartPolicy: Sometimes}}}";
    for (name, spec, reason, says) in [
        ("volume", fork_spec("stateful", &json!({})), "SharedVolume", "data"),
        (
            "budget",
            fork_spec("cart", &json!({"preservedLabels": ["^team$"]})),
            "WouldReceiveBaselineTraffic",
            "carts",
        ),
        ("patch", fork_spec("cart", &json!({"patch": {"value": bad}})), "InvalidPatch", "Sometimes"),
        (
            "test",
            fork_spec(
                "cart",
                &json!({"patch": {"type": "json", "value": "[{\"op\": \"test\", \"path\": \"/spec/paused\", \"value\": 1}]"}}),
            ),
            "InvalidPatch",
            "",
        ),
    ] {
        shop.create_sandbox(name, spec).await;
        let sandbox = shop.wait_for_condition(name, "Accepted", "False", reason).await;
        assert!(
            condition_message(&sandbox, "Accepted").contains(says),
            "{name}: {}",
            condition_message(&sandbox, "Accepted")
        );
        assert!(shop.forks(name).await.is_empty() && shop.fork_services(name).await.is_empty());
    }
    // Network policies that select only one of both are reported.
    let policy =
        json!({"metadata": {"name": "carts"}, "spec": {"podSelector": {"matchLabels": {"app": "cart"}}}});
    shop.create_object("NetworkPolicy", policy).await.unwrap();
    node.leave_unscheduled("repo/cart:pr-1");
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_event("pr-1", "NetworkPolicyDiffers").await;
    let pods = "sandbox.capt.x-k8s.io/sandbox=pr-1";
    shop.wait_for("its pod is there", async || !shop.list("Pod", pods).await.is_empty()).await;
    shop.create_scheduling_event(&shop.list("Pod", pods).await[0], "no place for it").await;
    shop.merge_patch("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    let sandbox = shop.wait_for_condition("pr-1", "ForksReady", "False", "PodFailing").await;
    assert!(condition_message(&sandbox, "ForksReady").contains("no place for it"));
    for name in ["volume", "budget", "patch", "test", "pr-1"] {
        shop.delete("Sandbox", name).await;
        shop.wait_until_deleted("Sandbox", name).await;
    }
}

pub(crate) async fn f3_f4_a_service_is_check_takeover_and_restore(world: Arc<ContractHarness>) {
    let (shop, _node) = open_namespace(world, "takeover").await;
    crate::takeover::check_takeover_and_restore(&shop).await;
    crate::takeover::check_reverted_by_other_tool(&shop).await;
}

/// The kind comes while we run, and is not ours.
pub(crate) async fn a_mesh_gets_the_routes_of_a_group(world: Arc<ContractHarness>) {
    let (shop, _node) = open_namespace(world, "mesh").await;
    let crd = serde_saphyr::from_str(include_str!("../fixtures/gateway-api/httproutes.yaml")).unwrap();
    KubeClient::new(shop.client.clone()).install_crds(&[crd]).await.unwrap();
    let meta = json!({"name": "pr-1", "labels": {"feature": "mesh"}});
    shop.create_object("Sandbox", json!({"metadata": meta, "spec": fork_spec("cart", &json!({}))}))
        .await
        .unwrap();
    let spec =
        json!({"match": {"label": {"key": "feature", "value": "mesh"}}, "routing": {"mode": "GatewayAPI"}});
    shop.create_object("RouteGroup", json!({"metadata": {"name": "group"}, "spec": spec})).await.unwrap();
    let is_written = |it: &Value| {
        condition(it, "RoutesProgrammed").1 == "RoutesNotAccepted" && it["status"]["routes"] == 1
    };
    shop.wait_until("RouteGroup", "group", "without a mesh", is_written).await;
    let ours = "sandbox.capt.x-k8s.io/service";
    shop.wait_for("its routes are written", async || shop.list("HTTPRoute", ours).await.len() == 1).await;
    shop.delete("RouteGroup", "group").await;
    shop.wait_for("its routes are gone", async || shop.list("HTTPRoute", ours).await.is_empty()).await;
    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
}
