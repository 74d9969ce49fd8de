//! P10, P27, P28, B1: what goes, in which order, and what stays.

use super::*;

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Plays the controller of workspaces: holds the workspace until its destroy is over.
async fn hold(rig: &Rig) {
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": [names::APPLY_FINALIZER]}})).await;
}

async fn destroyed(rig: &Rig) {
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": []}})).await;
}

async fn control_plane(rig: &Rig, cluster: &Value) {
    let finalizers = [names::CONTROL_PLANE_FINALIZER];
    let object = json!({"metadata": {"name": "demo-captcontrolplane", "finalizers": finalizers}, "spec": {"version": "1.33"}});
    rig.make("CAPTControlPlane", object).await;
    rig.own("CAPTControlPlane", "demo-captcontrolplane", cluster).await;
}

async fn release_control_plane(rig: &Rig) {
    rig.merge("CAPTControlPlane", "demo-captcontrolplane", json!({"metadata": {"finalizers": []}})).await;
}

#[tokio::test]
async fn the_network_waits_for_its_control_planes_and_then_for_its_workspace() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    let cluster = complete(&rig, plain()).await;
    hold(&rig).await;
    control_plane(&rig, &cluster).await;
    rig.delete("CAPTCluster", NET).await;
    let waits =
        rig.until("CAPTCluster", NET, |it| said(it, "Deleting").1 == "WaitingForControlPlaneDeletion").await;
    assert!(message(&waits, "Deleting").contains("demo-captcontrolplane"));
    assert_eq!(
        (&waits["status"]["phase"], said(&waits, "Ready")),
        (&json!("Deleting"), pair("False", "Deleting"))
    );
    assert!(!is_going(&rig.get(WTA, VPC).await.unwrap()), "EKS is still there");

    rig.delete("CAPTControlPlane", "demo-captcontrolplane").await;
    rig.settle().await;
    assert!(!is_going(&rig.get(WTA, VPC).await.unwrap()), "EKS is still there");
    release_control_plane(&rig).await;
    rig.until(WTA, VPC, is_going).await;
    rig.until("CAPTCluster", NET, |it| said(it, "Deleting").1 == "WaitingForWorkspaceDeletion").await;
    rig.workspace_failed(VPC, "Dependency").await;
    let told = rig.until("CAPTCluster", NET, |it| message(it, "Deleting").contains("it did not work")).await;
    assert_eq!(told["metadata"]["finalizers"], json!([names::CLUSTER_FINALIZER]));
    destroyed(&rig).await;
    rig.until_gone("CAPTCluster", NET).await;
    assert!(rig.server.requests().writes_by(AGENT).iter().all(|it| it.resource != "clusters"));
}

#[tokio::test]
async fn a_network_goes_although_its_cluster_is_gone() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    complete(&rig, plain()).await;
    hold(&rig).await;
    rig.delete("Cluster", "demo").await;
    rig.until_gone("Cluster", "demo").await;
    rig.until("CAPTCluster", NET, is_going).await;
    rig.until(WTA, VPC, is_going).await;
    destroyed(&rig).await;
    rig.until_gone("CAPTCluster", NET).await;
}

/// B1: with a garbage collector that really collects.
#[tokio::test]
async fn a_network_that_is_retained_outlives_its_object() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    complete(&rig, json!({"region": "eu-central-1", "retainVpcOnDelete": true})).await;
    let before = rig.get(WTA, VPC).await.unwrap();
    assert_eq!(before["spec"]["retainWorkspaceOnDelete"], true);
    // Something else that it owns, by which the collector is seen at work.
    let net = rig.get("CAPTCluster", NET).await.unwrap();
    let owner = json!({"apiVersion": net["apiVersion"], "kind": "CAPTCluster", "name": NET, "uid": net["metadata"]["uid"]});
    rig.make("Secret", json!({"metadata": {"name": "owned", "ownerReferences": [owner]}})).await;
    rig.delete("CAPTCluster", NET).await;
    rig.until_gone("CAPTCluster", NET).await;
    rig.until_gone("Secret", "owned").await;
    let kept = rig.get(WTA, VPC).await.expect("the workspace is gone, and the VPC with it");
    assert!(!is_going(&kept) && kept["metadata"].get("ownerReferences").is_none_or(|it| *it == json!([])));
    assert_eq!(
        (&kept["spec"]["retainWorkspaceOnDelete"], &kept["metadata"]["uid"]),
        (&json!(true), &before["metadata"]["uid"])
    );
}

#[tokio::test]
async fn a_retained_network_is_taken_up_again_and_may_then_be_destroyed() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    let cluster = complete(&rig, json!({"region": "eu-central-1", "retainVpcOnDelete": true})).await;
    rig.delete("CAPTCluster", NET).await;
    rig.until_gone("CAPTCluster", NET).await;
    network(&rig, plain()).await;
    rig.own("CAPTCluster", NET, &cluster).await;
    let taken = rig.until(WTA, VPC, |it| it["spec"]["retainWorkspaceOnDelete"] == false).await;
    assert_eq!(taken["metadata"]["ownerReferences"][0]["name"], NET);
}

#[tokio::test]
async fn a_mark_that_is_set_while_it_goes_counts() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    let cluster = complete(&rig, plain()).await;
    control_plane(&rig, &cluster).await;
    rig.delete("CAPTCluster", NET).await;
    rig.until("CAPTCluster", NET, |it| said(it, "Deleting").0 == "True").await;
    rig.merge("CAPTCluster", NET, json!({"spec": {"retainVpcOnDelete": true}})).await;
    rig.delete("CAPTControlPlane", "demo-captcontrolplane").await;
    release_control_plane(&rig).await;
    rig.until_gone("CAPTCluster", NET).await;
    let kept = rig.get(WTA, VPC).await.unwrap();
    assert_eq!((is_going(&kept), &kept["spec"]["retainWorkspaceOnDelete"]), (false, &json!(true)));
}

#[tokio::test]
async fn a_foreground_deletion_ends_too() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    complete(&rig, plain()).await;
    hold(&rig).await;
    rig.api("CAPTCluster").delete(NET, &DeleteParams::foreground()).await.unwrap();
    rig.until(WTA, VPC, is_going).await;
    rig.until("CAPTCluster", NET, |it| said(it, "Deleting").1 == "WaitingForWorkspaceDeletion").await;
    destroyed(&rig).await;
    rig.until_gone("CAPTCluster", NET).await;
}

#[tokio::test]
async fn a_namespace_that_goes_takes_the_network_with_it_and_nothing_is_made_there() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    let cluster = complete(&rig, plain()).await;
    hold(&rig).await;
    control_plane(&rig, &cluster).await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(rig.server.client());
    namespaces.delete(HOME, &DeleteParams::default()).await.unwrap();
    rig.until("CAPTCluster", NET, |it| said(it, "Deleting").1 == "WaitingForControlPlaneDeletion").await;
    release_control_plane(&rig).await;
    rig.until(WTA, VPC, is_going).await;
    destroyed(&rig).await;
    rig.until_gone("CAPTCluster", NET).await;
    rig.until_gone(WTA, VPC).await;
}

#[tokio::test]
async fn what_clusterctl_moves_away_is_left_as_it_is() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    complete(&rig, plain()).await;
    rig.merge(
        "CAPTCluster",
        NET,
        json!({"metadata": {"annotations": {names::DELETE_FOR_MOVE_ANNOTATION: ""}}}),
    )
    .await;
    rig.delete("CAPTCluster", NET).await;
    rig.settle().await;
    assert!(!is_going(&rig.get(WTA, VPC).await.unwrap()));
    let net = rig.get("CAPTCluster", NET).await.unwrap();
    assert_eq!(
        net["metadata"]["finalizers"],
        json!([names::CLUSTER_FINALIZER]),
        "clusterctl takes it off itself"
    );
}
