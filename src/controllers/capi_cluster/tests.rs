//! Both controllers against a real API server in this process; the test plays the workspaces and the control plane.

use serde_json::{Value, json};

use crate::{
    api::names,
    controllers::rig::{AGENT, Rig, condition, message, said},
};

const WTA: &str = "WorkspaceTemplateApply";
const NET: &str = "demo-captcluster";
const CP: &str = "demo-captcontrolplane";
const VPC: &str = "demo-captcluster-vpc";

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

async fn parts(rig: &Rig) {
    rig.make("CAPTCluster", json!({"metadata": {"name": NET}, "spec": {"region": "eu-central-1"}})).await;
    let finalizers = [names::CONTROL_PLANE_FINALIZER];
    let control_plane =
        json!({"metadata": {"name": CP, "finalizers": finalizers}, "spec": {"version": "1.33"}});
    rig.make("CAPTControlPlane", control_plane).await;
}

async fn start() -> Rig {
    let rig = Rig::start().await;
    rig.run_standalone();
    rig.run_captcluster();
    rig
}

/// Plays the controller of control planes: it answers.
async fn answer(rig: &Rig) {
    let endpoint = json!({"host": "abc.gr7.eu-central-1.eks.amazonaws.com", "port": 443});
    rig.merge("CAPTControlPlane", CP, json!({"spec": {"controlPlaneEndpoint": endpoint}})).await;
    let status = json!({"initialization": {"controlPlaneInitialized": true}, "conditions": [condition("Available", "True", "Available")]});
    rig.set_status("CAPTControlPlane", CP, status).await;
}

/// A Cluster that can be used.
async fn complete(rig: &Rig) {
    rig.cluster("demo").await;
    parts(rig).await;
    rig.until(WTA, VPC, |_| true).await;
    rig.workspace_done(VPC).await;
    answer(rig).await;
    rig.until("Cluster", "demo", |it| said(it, "Available").0 == "True").await;
}

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

#[tokio::test]
async fn a_cluster_comes_to_be_as_with_cluster_api() {
    let rig = start().await;
    let cluster = rig.cluster("demo").await;
    let waits =
        rig.until("Cluster", "demo", |it| said(it, "InfrastructureReady").1 == "ObjectDoesNotExist").await;
    assert_eq!(waits["metadata"]["finalizers"], json!(["cluster.cluster.x-k8s.io"]));
    assert_eq!(waits["status"]["phase"], "Provisioning");
    parts(&rig).await;
    for (kind, name) in [("CAPTCluster", NET), ("CAPTControlPlane", CP)] {
        let claimed = rig.until(kind, name, |it| it["metadata"].get("ownerReferences").is_some()).await;
        let owner = &claimed["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["apiVersion"], &owner["kind"]),
            (&json!("cluster.x-k8s.io/v1beta2"), &json!("Cluster"))
        );
        assert_eq!((&owner["uid"], &owner["controller"]), (&cluster["metadata"]["uid"], &json!(false)));
        assert_eq!(claimed["metadata"]["labels"][names::CLUSTER_NAME_LABEL], "demo");
    }
    rig.until(WTA, VPC, |_| true).await;
    let coming = rig.until("Cluster", "demo", |it| said(it, "InfrastructureReady").1 == "VPCCreating").await;
    assert!(
        message(&coming, "Available").contains("WorkspaceTemplateApply"),
        "{}",
        message(&coming, "Available")
    );
    rig.workspace_done(VPC).await;
    let ready = rig
        .until("Cluster", "demo", |it| it["status"]["initialization"]["infrastructureProvisioned"] == true)
        .await;
    assert_eq!(ready["status"]["failureDomains"][0], json!({"name": "eu-central-1a", "controlPlane": true}));
    assert_eq!(said(&ready, "ControlPlaneInitialized"), pair("False", "NotInitialized"));
    answer(&rig).await;
    let done = rig.until("Cluster", "demo", |it| it["status"]["phase"] == "Provisioned").await;
    assert_eq!(done["spec"]["controlPlaneEndpoint"]["port"], 443);
    rig.until("Cluster", "demo", |it| said(it, "Available") == pair("True", "Available")).await;
    rig.until("CAPTCluster", NET, |it| {
        it["status"]["endpoint"] == done["spec"]["controlPlaneEndpoint"]["host"]
    })
    .await;
}

#[tokio::test]
async fn a_settled_cluster_is_not_written_again() {
    let rig = start().await;
    complete(&rig).await;
    // The first looks may belong to its making.
    for attempt in 1.. {
        rig.settle().await;
        rig.server.requests().clear();
        for _ in 0..3 {
            rig.look_by("CAPTControlPlane", ("captcontrolplanes", CP)).await;
        }
        let writes = rig.server.requests().writes_by(AGENT);
        if writes.is_empty() {
            break;
        }
        assert!(attempt < 5, "looks lead to writes: {writes:#?}");
    }
}

#[tokio::test]
async fn the_control_plane_goes_first_then_the_network_then_the_cluster() {
    let rig = start().await;
    complete(&rig).await;
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": [names::APPLY_FINALIZER]}})).await;
    rig.delete("Cluster", "demo").await;
    rig.until("CAPTControlPlane", CP, is_going).await;
    let waits =
        rig.until("Cluster", "demo", |it| said(it, "Deleting").1 == "WaitingForControlPlaneDeletion").await;
    assert_eq!(waits["status"]["phase"], "Deleting");
    rig.settle().await;
    assert!(!is_going(&rig.get("CAPTCluster", NET).await.unwrap()), "the control plane is still there");
    rig.merge("CAPTControlPlane", CP, json!({"metadata": {"finalizers": []}})).await;
    rig.until("CAPTCluster", NET, is_going).await;
    rig.until("Cluster", "demo", |it| said(it, "Deleting").1 == "WaitingForInfrastructureDeletion").await;
    rig.until(WTA, VPC, is_going).await;
    assert!(rig.get("Cluster", "demo").await.is_some());
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": []}})).await;
    rig.until_gone("CAPTCluster", NET).await;
    rig.until_gone("Cluster", "demo").await;
}

#[tokio::test]
async fn a_paused_cluster_gets_one_condition_and_nothing_else() {
    let rig = Rig::start().await;
    let paused = json!({"metadata": {"name": "demo", "annotations": {names::PAUSED_ANNOTATION: ""}},
        "spec": {"infrastructureRef": {"apiGroup": names::INFRASTRUCTURE_GROUP, "kind": "CAPTCluster", "name": NET}}});
    rig.make("Cluster", paused).await;
    parts(&rig).await;
    rig.run_standalone();
    let told = rig.until("Cluster", "demo", |it| said(it, "Paused") == pair("True", "Paused")).await;
    rig.settle().await;
    assert_eq!(told["metadata"].get("finalizers"), None);
    assert_eq!(rig.get("CAPTCluster", NET).await.unwrap()["metadata"].get("ownerReferences"), None);
    rig.merge("Cluster", "demo", json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: null}}}))
        .await;
    rig.until("CAPTCluster", NET, |it| it["metadata"].get("ownerReferences").is_some()).await;
}

#[tokio::test]
async fn a_network_that_vanished_is_an_error_and_the_latch_stays() {
    let rig = start().await;
    complete(&rig).await;
    rig.delete("CAPTCluster", NET).await;
    rig.merge("CAPTControlPlane", CP, json!({"metadata": {"finalizers": []}})).await;
    rig.delete("CAPTControlPlane", CP).await;
    rig.until_gone("CAPTCluster", NET).await;
    let told = rig.until("Cluster", "demo", |it| said(it, "InfrastructureReady").1 == "ObjectDeleted").await;
    assert_eq!(message(&told, "InfrastructureReady"), "CAPTCluster has been deleted after being provisioned");
    assert_eq!(told["status"]["initialization"]["infrastructureProvisioned"], true);
    assert_eq!(said(&told, "Available").0, "False");
}

#[tokio::test]
async fn an_endpoint_of_the_user_is_respected() {
    let rig = start().await;
    rig.cluster("demo").await;
    rig.merge(
        "Cluster",
        "demo",
        json!({"spec": {"controlPlaneEndpoint": {"host": "mine.example", "port": 8443}}}),
    )
    .await;
    parts(&rig).await;
    rig.until(WTA, VPC, |_| true).await;
    rig.workspace_done(VPC).await;
    answer(&rig).await;
    let done = rig.until("Cluster", "demo", |it| said(it, "Available").0 == "True").await;
    assert_eq!(done["spec"]["controlPlaneEndpoint"], json!({"host": "mine.example", "port": 8443}));
}

#[tokio::test]
async fn a_reference_to_an_unknown_kind_is_told() {
    let rig = Rig::start().await;
    rig.run_standalone();
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "x"});
    rig.make("Cluster", json!({"metadata": {"name": "demo"}, "spec": {"infrastructureRef": reference}}))
        .await;
    let told = rig.until("Cluster", "demo", |it| said(it, "InfrastructureReady").1 == "InternalError").await;
    assert!(message(&told, "InfrastructureReady").contains("AWSCluster"), "{told:#}");
}
