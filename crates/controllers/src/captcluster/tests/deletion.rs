//! P10, P27, P28, B1: deletion order and retention.

use super::*;

fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Simulates the workspace controller: adds the finalizer, as if the destroy had not finished.
async fn add_workspace_finalizer(rig: &TestEnv) {
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": [names::APPLY_FINALIZER]}})).await;
}

async fn remove_workspace_finalizer(rig: &TestEnv) {
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": []}})).await;
}

async fn create_control_plane(rig: &TestEnv, cluster: &Value) {
    let finalizers = [names::CONTROL_PLANE_FINALIZER];
    let object = json!({"metadata": {"name": "demo-captcontrolplane", "finalizers": finalizers}, "spec": {"version": "1.33"}});
    rig.create("CAPTControlPlane", object).await;
    rig.set_owner("CAPTControlPlane", "demo-captcontrolplane", cluster).await;
}

async fn release_control_plane(rig: &TestEnv) {
    rig.merge("CAPTControlPlane", "demo-captcontrolplane", json!({"metadata": {"finalizers": []}})).await;
}

#[tokio::test]
async fn the_network_waits_for_its_control_planes_and_then_for_its_workspace() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    let cluster = create_ready_network(&rig, minimal_spec()).await;
    add_workspace_finalizer(&rig).await;
    create_control_plane(&rig, &cluster).await;
    rig.delete("CAPTCluster", NET).await;
    let waits = rig
        .wait_until("CAPTCluster", NET, |it| {
            condition_status(it, "Deleting").1 == "WaitingForControlPlaneDeletion"
        })
        .await;
    assert!(condition_message(&waits, "Deleting").contains("demo-captcontrolplane"));
    assert_eq!(
        (&waits["status"]["phase"], condition_status(&waits, "Ready")),
        (&json!("Deleting"), pair("False", "Deleting"))
    );
    assert!(!is_deleting(&rig.get(WTA, VPC).await.unwrap()), "EKS is still there");

    rig.delete("CAPTControlPlane", "demo-captcontrolplane").await;
    rig.wait_until_idle().await;
    assert!(!is_deleting(&rig.get(WTA, VPC).await.unwrap()), "EKS is still there");
    release_control_plane(&rig).await;
    rig.wait_until(WTA, VPC, is_deleting).await;
    rig.wait_until("CAPTCluster", NET, |it| {
        condition_status(it, "Deleting").1 == "WaitingForWorkspaceDeletion"
    })
    .await;
    rig.fail_workspace(VPC, "Dependency").await;
    let told = rig
        .wait_until("CAPTCluster", NET, |it| condition_message(it, "Deleting").contains("it did not work"))
        .await;
    assert_eq!(told["metadata"]["finalizers"], json!([names::CLUSTER_FINALIZER]));
    remove_workspace_finalizer(&rig).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    assert!(rig.server.request_log().writes_by(USER_AGENT).iter().all(|it| it.resource != "clusters"));
}

#[tokio::test]
async fn a_network_goes_although_its_cluster_is_gone() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    create_ready_network(&rig, minimal_spec()).await;
    add_workspace_finalizer(&rig).await;
    rig.delete("Cluster", "demo").await;
    rig.wait_until_gone("Cluster", "demo").await;
    rig.wait_until("CAPTCluster", NET, is_deleting).await;
    rig.wait_until(WTA, VPC, is_deleting).await;
    remove_workspace_finalizer(&rig).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
}

/// B1: with a running garbage collector.
#[tokio::test]
async fn a_network_that_is_retained_outlives_its_object() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    create_ready_network(&rig, json!({"region": "eu-central-1", "retainVpcOnDelete": true})).await;
    let before = rig.get(WTA, VPC).await.unwrap();
    assert_eq!(before["spec"]["retainWorkspaceOnDelete"], true);
    // A second dependent: its removal proves that the garbage collector ran.
    let net = rig.get("CAPTCluster", NET).await.unwrap();
    let owner = json!({"apiVersion": net["apiVersion"], "kind": "CAPTCluster", "name": NET, "uid": net["metadata"]["uid"]});
    rig.create("Secret", json!({"metadata": {"name": "owned", "ownerReferences": [owner]}})).await;
    rig.delete("CAPTCluster", NET).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    rig.wait_until_gone("Secret", "owned").await;
    let kept = rig.get(WTA, VPC).await.expect("the workspace is gone, and the VPC with it");
    assert!(!is_deleting(&kept) && kept["metadata"].get("ownerReferences").is_none_or(|it| *it == json!([])));
    assert_eq!(
        (&kept["spec"]["retainWorkspaceOnDelete"], &kept["metadata"]["uid"]),
        (&json!(true), &before["metadata"]["uid"])
    );
}

#[tokio::test]
async fn a_retained_network_is_taken_up_again_and_may_then_be_destroyed() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    let cluster =
        create_ready_network(&rig, json!({"region": "eu-central-1", "retainVpcOnDelete": true})).await;
    rig.delete("CAPTCluster", NET).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    create_network(&rig, minimal_spec()).await;
    rig.set_owner("CAPTCluster", NET, &cluster).await;
    let taken = rig.wait_until(WTA, VPC, |it| it["spec"]["retainWorkspaceOnDelete"] == false).await;
    assert_eq!(taken["metadata"]["ownerReferences"][0]["name"], NET);
}

#[tokio::test]
async fn a_mark_that_is_set_while_it_goes_counts() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    let cluster = create_ready_network(&rig, minimal_spec()).await;
    create_control_plane(&rig, &cluster).await;
    rig.delete("CAPTCluster", NET).await;
    rig.wait_until("CAPTCluster", NET, |it| condition_status(it, "Deleting").0 == "True").await;
    rig.merge("CAPTCluster", NET, json!({"spec": {"retainVpcOnDelete": true}})).await;
    rig.delete("CAPTControlPlane", "demo-captcontrolplane").await;
    release_control_plane(&rig).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    let kept = rig.get(WTA, VPC).await.unwrap();
    assert_eq!((is_deleting(&kept), &kept["spec"]["retainWorkspaceOnDelete"]), (false, &json!(true)));
}

#[tokio::test]
async fn a_foreground_deletion_ends_too() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    create_ready_network(&rig, minimal_spec()).await;
    add_workspace_finalizer(&rig).await;
    rig.api("CAPTCluster").delete(NET, &DeleteParams::foreground()).await.unwrap();
    rig.wait_until(WTA, VPC, is_deleting).await;
    rig.wait_until("CAPTCluster", NET, |it| {
        condition_status(it, "Deleting").1 == "WaitingForWorkspaceDeletion"
    })
    .await;
    remove_workspace_finalizer(&rig).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
}

#[tokio::test]
async fn a_namespace_that_goes_takes_the_network_with_it_and_nothing_is_made_there() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    let cluster = create_ready_network(&rig, minimal_spec()).await;
    add_workspace_finalizer(&rig).await;
    create_control_plane(&rig, &cluster).await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(rig.server.client());
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await.unwrap();
    rig.wait_until("CAPTCluster", NET, |it| {
        condition_status(it, "Deleting").1 == "WaitingForControlPlaneDeletion"
    })
    .await;
    release_control_plane(&rig).await;
    rig.wait_until(WTA, VPC, is_deleting).await;
    remove_workspace_finalizer(&rig).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    rig.wait_until_gone(WTA, VPC).await;
}

#[tokio::test]
async fn what_clusterctl_moves_away_is_left_as_it_is() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    create_ready_network(&rig, minimal_spec()).await;
    rig.merge(
        "CAPTCluster",
        NET,
        json!({"metadata": {"annotations": {names::DELETE_FOR_MOVE_ANNOTATION: ""}}}),
    )
    .await;
    rig.delete("CAPTCluster", NET).await;
    rig.wait_until_idle().await;
    assert!(!is_deleting(&rig.get(WTA, VPC).await.unwrap()));
    let net = rig.get("CAPTCluster", NET).await.unwrap();
    assert_eq!(
        net["metadata"]["finalizers"],
        json!([names::CLUSTER_FINALIZER]),
        "clusterctl takes it off itself"
    );
}
