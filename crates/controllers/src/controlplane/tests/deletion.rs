//! Deletion: its order, and the reason reported for every wait.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
use kube::{
    api::{DeleteParams, PropagationPolicy},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use super::harness::{CONTROL_PLANE_NAME, EKS_APPLY_NAME, Harness, KIND, WTA, profile_apply_name};
use crate::testing::{TIMEOUT, condition_message, condition_status};

fn two_profiles() -> Value {
    let profile = |name: &str| json!({"name": name, "selectors": [{"namespace": name}]});
    json!({"version": "1.33", "additionalFargateProfiles": [profile("one"), profile("two")]})
}

async fn ready() -> Harness {
    let world = Harness::with_control_plane(two_profiles()).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world
}

#[tokio::test]
async fn profiles_go_before_the_cluster_and_secrets_after_it() {
    let world = ready().await;
    world.with_behavior(|orders| orders.stalled.insert(profile_apply_name("two")));
    world.env.delete(KIND, CONTROL_PLANE_NAME).await;
    let found = world
        .wait_until(|it| condition_status(it, "Deleting").1 == "WaitingForFargateProfilesDeletion")
        .await;
    assert_eq!(found["status"]["phase"], "Deleting");
    world.env.wait_until_gone(WTA, &profile_apply_name("one")).await;
    let found = world
        .wait_until(|it| it["status"]["fargateProfileStatuses"].as_array().is_none_or(|all| all.len() == 1))
        .await;
    assert_eq!(found["status"]["fargateProfileStatuses"][0]["status"], "DELETING");
    assert!(world.env.get(WTA, EKS_APPLY_NAME).await.unwrap()["metadata"].get("deletionTimestamp").is_none());

    world.with_behavior(|orders| {
        orders.stalled.clear();
        orders.stalled.insert(EKS_APPLY_NAME.to_owned());
    });
    world.wait_until(|it| condition_status(it, "Deleting").1 == "WaitingForEKSClusterDeletion").await;
    assert!(world.env.get("Secret", "demo-kubeconfig").await.is_some());
    world.with_behavior(|orders| orders.stalled.clear());
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
    for name in ["demo-kubeconfig", "demo-user-kubeconfig", "demo-ca"] {
        assert!(world.env.get("Secret", name).await.is_none(), "{name}");
    }
    let destroyed = world.behavior.lock().unwrap().destroyed.clone();
    assert_eq!(destroyed, [profile_apply_name("one"), profile_apply_name("two"), EKS_APPLY_NAME.to_owned()]);
}

#[tokio::test]
async fn sandboxes_leave_before_anything_of_the_cluster_goes() {
    let world = ready().await;
    let of =
        |cluster: &str| json!({"clusterRef": {"name": cluster}, "forks": [{"forkOf": {"name": "cart"}}]});
    let held = json!({"name": "pr-1", "finalizers": ["example.com/held"]});
    world.env.create("Sandbox", json!({"metadata": held, "spec": of("demo")})).await;
    world.env.create("Sandbox", json!({"metadata": {"name": "pr-2"}, "spec": of("other")})).await;
    world.env.delete(KIND, CONTROL_PLANE_NAME).await;
    let found =
        world.wait_until(|it| condition_status(it, "Deleting").1 == "WaitingForSandboxesDeletion").await;
    assert!(
        condition_message(&found, "Deleting").contains("pr-1"),
        "{}",
        condition_message(&found, "Deleting")
    );
    world.env.wait_until("Sandbox", "pr-1", |it| it["metadata"].get("deletionTimestamp").is_some()).await;
    assert!(world.env.get(WTA, EKS_APPLY_NAME).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    world.env.merge("Sandbox", "pr-1", json!({"metadata": {"finalizers": null}})).await;
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
    assert!(world.env.get("Sandbox", "pr-2").await.is_some(), "it is in another cluster");
}

/// Load balancers that AWS created for Services block the deletion of the VPC, and thereby `terraform destroy`.
#[tokio::test]
async fn balancers_of_routers_leave_before_anything_of_the_cluster_goes_whether_or_not_it_has_sandboxes() {
    let world = ready().await;
    let far = EmbeddedKube::builder().in_memory().listen(ListenConfig::loopback()).start().await.unwrap();
    let services: kube::Api<kube::api::DynamicObject> = kube::Api::namespaced_with(
        far.client(),
        "default",
        &kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&()),
    );
    let held = ["example.com/balancer"];
    // The Service is recognized by its selector and needs no label.
    let router = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "edge", "finalizers": held},
        "spec": {"type": "LoadBalancer", "selector": {"sandbox.capt.x-k8s.io/router": "router"}, "ports": [{"port": 80}]}});
    let router = serde_json::from_value(router).unwrap();
    services.create(&kube::api::PostParams::default(), &router).await.unwrap();
    // While the deletion waits for a Sandbox, the kubeconfig Secret is not rewritten.
    let spec = json!({"clusterRef": {"name": "demo"}, "forks": [{"forkOf": {"name": "cart"}}]});
    let last = json!({"metadata": {"name": "pr-1", "finalizers": held}, "spec": spec});
    world.env.create("Sandbox", last).await;
    world.env.delete(KIND, CONTROL_PLANE_NAME).await;
    world.wait_until(|it| condition_status(it, "Deleting").1 == "WaitingForSandboxesDeletion").await;
    let data = json!({"value": BASE64_STANDARD.encode(far.kubeconfig().unwrap())});
    world.env.merge("Secret", "demo-kubeconfig", json!({"data": data})).await;
    world.env.merge("Sandbox", "pr-1", json!({"metadata": {"finalizers": null}})).await;

    let found =
        world.wait_until(|it| condition_status(it, "Deleting").1 == "WaitingForLoadBalancersDeletion").await;
    assert!(
        condition_message(&found, "Deleting").contains("default/edge"),
        "{}",
        condition_message(&found, "Deleting")
    );
    let is_going =
        |it: Option<&kube::api::DynamicObject>| it.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    let going = await_condition(services.clone(), "edge", is_going);
    tokio::time::timeout(TIMEOUT, going).await.expect("the Service stays").unwrap();
    assert!(world.env.get(WTA, EKS_APPLY_NAME).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    services.patch("edge", &kube::api::PatchParams::default(), &free).await.unwrap();
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
}

#[tokio::test]
async fn p9_a_destroy_that_fails_keeps_everything_and_is_told() {
    let world = ready().await;
    let error = json!({"class": "Unknown", "code": "InternalFailure", "address": "aws_eks_fargate_profile.this",
        "message": "unexpected state 'DELETE_FAILED'", "retryAt": "2036-11-01T10:10:00Z"});
    world.with_behavior(|orders| orders.failing.insert(profile_apply_name("two"), error));
    world.env.delete(KIND, CONTROL_PLANE_NAME).await;
    let found = world.wait_until(|it| condition_message(it, "Deleting").contains("DELETE_FAILED")).await;
    assert!(
        condition_message(&found, "Deleting").contains("InternalFailure")
            && condition_message(&found, "Deleting").contains("2036-11-01")
    );
    // The other one may still be in deletion.
    let left = found["status"]["fargateProfileStatuses"].as_array().unwrap();
    let failed = left.iter().find(|it| it["name"] == "two").unwrap();
    assert_eq!(failed["failureReason"], "InternalFailure");
    assert!(world.env.get(WTA, EKS_APPLY_NAME).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    world.with_behavior(|orders| orders.failing.clear());
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
}

#[tokio::test]
async fn p10_it_goes_without_its_cluster_and_while_its_namespace_goes() {
    let world = ready().await;
    world.env.delete("Cluster", "demo").await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(world.env.server.client());
    namespaces.delete(crate::testing::NAMESPACE, &DeleteParams::default()).await.unwrap();
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
    let destroyed = world.behavior.lock().unwrap().destroyed.clone();
    assert!(destroyed.contains(&EKS_APPLY_NAME.to_owned()) && destroyed.len() == 3, "{destroyed:?}");
}

#[tokio::test]
async fn p10_a_foreground_deletion_ends() {
    let world = ready().await;
    let params =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    world.env.api(KIND).delete(CONTROL_PLANE_NAME, &params).await.unwrap();
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
    assert_eq!(world.behavior.lock().unwrap().destroyed.len(), 3);
}

#[tokio::test]
async fn what_clusterctl_moves_away_is_not_destroyed() {
    let world = ready().await;
    let moving = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    world.env.merge(KIND, CONTROL_PLANE_NAME, moving).await;
    world.env.delete(KIND, CONTROL_PLANE_NAME).await;
    world.env.wait_until_idle().await;
    assert!(
        world.env.get(KIND, CONTROL_PLANE_NAME).await.is_some(),
        "clusterctl removes the finalizer itself"
    );
    assert!(world.env.get(WTA, EKS_APPLY_NAME).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    assert!(world.behavior.lock().unwrap().destroyed.is_empty());
}

#[tokio::test]
async fn one_that_never_made_anything_goes_at_once() {
    let world = Harness::start(crate::common::Settings::default()).await;
    world.env.create(KIND, json!({"metadata": {"name": CONTROL_PLANE_NAME}, "spec": two_profiles()})).await;
    world.env.set_owner(KIND, CONTROL_PLANE_NAME, &world.cluster).await;
    world.wait_until(|it| it["metadata"]["finalizers"].is_array()).await;
    world.env.delete(KIND, CONTROL_PLANE_NAME).await;
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
}
