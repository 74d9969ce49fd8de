//! Deletion: in order, whoever deletes what, and with a reason for every wait.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use embedded_kube::cluster::{EmbeddedKube, Listen};
use kube::{
    api::{DeleteParams, PropagationPolicy},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use super::world::{CP, EKS, KIND, WTA, World, apply_of};
use crate::controllers::rig::{PATIENCE, message, said};

fn two_profiles() -> Value {
    let profile = |name: &str| json!({"name": name, "selectors": [{"namespace": name}]});
    json!({"version": "1.33", "additionalFargateProfiles": [profile("one"), profile("two")]})
}

async fn ready() -> World {
    let world = World::with(two_profiles()).await;
    world.work();
    world.until_ready().await;
    world
}

#[tokio::test]
async fn profiles_go_before_the_cluster_and_secrets_after_it() {
    let world = ready().await;
    world.order(|orders| orders.held.insert(apply_of("two")));
    world.rig.delete(KIND, CP).await;
    let found = world.until(|it| said(it, "Deleting").1 == "WaitingForFargateProfilesDeletion").await;
    assert_eq!(found["status"]["phase"], "Deleting");
    world.rig.until_gone(WTA, &apply_of("one")).await;
    let found = world
        .until(|it| it["status"]["fargateProfileStatuses"].as_array().is_none_or(|all| all.len() == 1))
        .await;
    assert_eq!(found["status"]["fargateProfileStatuses"][0]["status"], "DELETING");
    assert!(world.rig.get(WTA, EKS).await.unwrap()["metadata"].get("deletionTimestamp").is_none());

    world.order(|orders| {
        orders.held.clear();
        orders.held.insert(EKS.to_owned());
    });
    world.until(|it| said(it, "Deleting").1 == "WaitingForEKSClusterDeletion").await;
    assert!(world.rig.get("Secret", "demo-kubeconfig").await.is_some());
    world.order(|orders| orders.held.clear());
    world.rig.until_gone(KIND, CP).await;
    for name in ["demo-kubeconfig", "demo-user-kubeconfig", "demo-ca"] {
        assert!(world.rig.get("Secret", name).await.is_none(), "{name}");
    }
    let destroyed = world.orders.lock().unwrap().destroyed.clone();
    assert_eq!(destroyed, [apply_of("one"), apply_of("two"), EKS.to_owned()]);
}

#[tokio::test]
async fn sandboxes_leave_before_anything_of_the_cluster_goes() {
    let world = ready().await;
    let of =
        |cluster: &str| json!({"clusterRef": {"name": cluster}, "forks": [{"forkOf": {"name": "cart"}}]});
    let held = json!({"name": "pr-1", "finalizers": ["example.com/held"]});
    world.rig.make("Sandbox", json!({"metadata": held, "spec": of("demo")})).await;
    world.rig.make("Sandbox", json!({"metadata": {"name": "pr-2"}, "spec": of("other")})).await;
    world.rig.delete(KIND, CP).await;
    let found = world.until(|it| said(it, "Deleting").1 == "WaitingForSandboxesDeletion").await;
    assert!(message(&found, "Deleting").contains("pr-1"), "{}", message(&found, "Deleting"));
    world.rig.until("Sandbox", "pr-1", |it| it["metadata"].get("deletionTimestamp").is_some()).await;
    assert!(world.rig.get(WTA, EKS).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    world.rig.merge("Sandbox", "pr-1", json!({"metadata": {"finalizers": null}})).await;
    world.rig.until_gone(KIND, CP).await;
    assert!(world.rig.get("Sandbox", "pr-2").await.is_some(), "it is in another cluster");
}

/// What holds back the network of a cluster that goes, and so `terraform destroy`, is what AWS made for its Services.
#[tokio::test]
async fn balancers_of_routers_leave_before_anything_of_the_cluster_goes_whether_or_not_it_has_sandboxes() {
    let world = ready().await;
    let far = EmbeddedKube::builder().in_memory().listen(Listen::loopback()).start().await.unwrap();
    let services: kube::Api<kube::api::DynamicObject> = kube::Api::namespaced_with(
        far.client(),
        "default",
        &kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&()),
    );
    let held = ["example.com/balancer"];
    // Nobody asks for a label on it: what it selects tells.
    let router = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "edge", "finalizers": held},
        "spec": {"type": "LoadBalancer", "selector": {"sandbox.capt.x-k8s.io/router": "router"}, "ports": [{"port": 80}]}});
    let router = serde_json::from_value(router).unwrap();
    services.create(&kube::api::PostParams::default(), &router).await.unwrap();
    // While a Sandbox is waited for nobody writes the kubeconfig anew.
    let spec = json!({"clusterRef": {"name": "demo"}, "forks": [{"forkOf": {"name": "cart"}}]});
    let last = json!({"metadata": {"name": "pr-1", "finalizers": held}, "spec": spec});
    world.rig.make("Sandbox", last).await;
    world.rig.delete(KIND, CP).await;
    world.until(|it| said(it, "Deleting").1 == "WaitingForSandboxesDeletion").await;
    let data = json!({"value": BASE64_STANDARD.encode(far.kubeconfig().unwrap())});
    world.rig.merge("Secret", "demo-kubeconfig", json!({"data": data})).await;
    world.rig.merge("Sandbox", "pr-1", json!({"metadata": {"finalizers": null}})).await;

    let found = world.until(|it| said(it, "Deleting").1 == "WaitingForLoadBalancersDeletion").await;
    assert!(message(&found, "Deleting").contains("default/edge"), "{}", message(&found, "Deleting"));
    let is_going =
        |it: Option<&kube::api::DynamicObject>| it.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    let going = await_condition(services.clone(), "edge", is_going);
    tokio::time::timeout(PATIENCE, going).await.expect("the Service stays").unwrap();
    assert!(world.rig.get(WTA, EKS).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    services.patch("edge", &kube::api::PatchParams::default(), &free).await.unwrap();
    world.rig.until_gone(KIND, CP).await;
}

#[tokio::test]
async fn p9_a_destroy_that_fails_keeps_everything_and_is_told() {
    let world = ready().await;
    let error = json!({"class": "Unknown", "code": "InternalFailure", "address": "aws_eks_fargate_profile.this",
        "message": "unexpected state 'DELETE_FAILED'", "retryAt": "2036-11-01T10:10:00Z"});
    world.order(|orders| orders.broken.insert(apply_of("two"), error));
    world.rig.delete(KIND, CP).await;
    let found = world.until(|it| message(it, "Deleting").contains("DELETE_FAILED")).await;
    assert!(
        message(&found, "Deleting").contains("InternalFailure")
            && message(&found, "Deleting").contains("2036-11-01")
    );
    // The other one may be on its way out still.
    let left = found["status"]["fargateProfileStatuses"].as_array().unwrap();
    let failed = left.iter().find(|it| it["name"] == "two").unwrap();
    assert_eq!(failed["failureReason"], "InternalFailure");
    assert!(world.rig.get(WTA, EKS).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    world.order(|orders| orders.broken.clear());
    world.rig.until_gone(KIND, CP).await;
}

#[tokio::test]
async fn p10_it_goes_without_its_cluster_and_while_its_namespace_goes() {
    let world = ready().await;
    world.rig.delete("Cluster", "demo").await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(world.rig.server.client());
    namespaces.delete(crate::controllers::rig::HOME, &DeleteParams::default()).await.unwrap();
    world.rig.until_gone(KIND, CP).await;
    let destroyed = world.orders.lock().unwrap().destroyed.clone();
    assert!(destroyed.contains(&EKS.to_owned()) && destroyed.len() == 3, "{destroyed:?}");
}

#[tokio::test]
async fn p10_a_foreground_deletion_ends() {
    let world = ready().await;
    let params =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    world.rig.api(KIND).delete(CP, &params).await.unwrap();
    world.rig.until_gone(KIND, CP).await;
    assert_eq!(world.orders.lock().unwrap().destroyed.len(), 3);
}

#[tokio::test]
async fn what_clusterctl_moves_away_is_not_destroyed() {
    let world = ready().await;
    let moving = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    world.rig.merge(KIND, CP, moving).await;
    world.rig.delete(KIND, CP).await;
    world.rig.settle().await;
    assert!(world.rig.get(KIND, CP).await.is_some(), "clusterctl takes the finalizer off itself");
    assert!(world.rig.get(WTA, EKS).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    assert!(world.orders.lock().unwrap().destroyed.is_empty());
}

#[tokio::test]
async fn one_that_never_made_anything_goes_at_once() {
    let world = World::start(crate::controllers::common::Settings::default()).await;
    world.rig.make(KIND, json!({"metadata": {"name": CP}, "spec": two_profiles()})).await;
    world.rig.own(KIND, CP, &world.cluster).await;
    world.until(|it| it["metadata"]["finalizers"].is_array()).await;
    world.rig.delete(KIND, CP).await;
    world.rig.until_gone(KIND, CP).await;
}
