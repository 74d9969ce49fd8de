//! Both controllers against an in-process API server; the test simulates the workspace and control plane controllers.

use capt_kinds::api::names;
use serde_json::{Value, json};

use crate::testing::{TestEnv, USER_AGENT, condition, condition_message, condition_status};

const WTA: &str = "WorkspaceTemplateApply";
const NET: &str = "demo-captcluster";
const CP: &str = "demo-captcontrolplane";
const VPC: &str = "demo-captcluster-vpc";

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

async fn create_referenced_objects(rig: &TestEnv) {
    rig.create("CAPTCluster", json!({"metadata": {"name": NET}, "spec": {"region": "eu-central-1"}})).await;
    let finalizers = [names::CONTROL_PLANE_FINALIZER];
    let control_plane =
        json!({"metadata": {"name": CP, "finalizers": finalizers}, "spec": {"version": "1.33"}});
    rig.create("CAPTControlPlane", control_plane).await;
}

async fn start() -> TestEnv {
    let rig = TestEnv::start().await;
    rig.run_standalone();
    rig.run_captcluster();
    rig
}

/// Simulates the control plane controller: marks the control plane as initialized.
async fn initialize_control_plane(rig: &TestEnv) {
    let endpoint = json!({"host": "abc.gr7.eu-central-1.eks.amazonaws.com", "port": 443});
    rig.merge("CAPTControlPlane", CP, json!({"spec": {"controlPlaneEndpoint": endpoint}})).await;
    let status = json!({"initialization": {"controlPlaneInitialized": true}, "conditions": [condition("Available", "True", "Available")]});
    rig.set_status("CAPTControlPlane", CP, status).await;
}

/// Creates a Cluster and waits until it is available.
async fn create_available_cluster(rig: &TestEnv) {
    rig.create_cluster("demo").await;
    create_referenced_objects(rig).await;
    rig.wait_until(WTA, VPC, |_| true).await;
    rig.complete_workspace(VPC).await;
    initialize_control_plane(rig).await;
    rig.wait_until("Cluster", "demo", |it| condition_status(it, "Available").0 == "True").await;
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

#[tokio::test]
async fn a_cluster_comes_to_be_as_with_cluster_api() {
    let rig = start().await;
    let cluster = rig.create_cluster("demo").await;
    let waits = rig
        .wait_until("Cluster", "demo", |it| {
            condition_status(it, "InfrastructureReady").1 == "ObjectDoesNotExist"
        })
        .await;
    assert_eq!(waits["metadata"]["finalizers"], json!(["cluster.cluster.x-k8s.io"]));
    assert_eq!(waits["status"]["phase"], "Provisioning");
    create_referenced_objects(&rig).await;
    for (kind, name) in [("CAPTCluster", NET), ("CAPTControlPlane", CP)] {
        let claimed = rig.wait_until(kind, name, |it| it["metadata"].get("ownerReferences").is_some()).await;
        let owner = &claimed["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["apiVersion"], &owner["kind"]),
            (&json!("cluster.x-k8s.io/v1beta2"), &json!("Cluster"))
        );
        assert_eq!((&owner["uid"], &owner["controller"]), (&cluster["metadata"]["uid"], &json!(false)));
        assert_eq!(claimed["metadata"]["labels"][names::CLUSTER_NAME_LABEL], "demo");
    }
    rig.wait_until(WTA, VPC, |_| true).await;
    let coming = rig
        .wait_until("Cluster", "demo", |it| condition_status(it, "InfrastructureReady").1 == "VPCCreating")
        .await;
    assert!(
        condition_message(&coming, "Available").contains("WorkspaceTemplateApply"),
        "{}",
        condition_message(&coming, "Available")
    );
    rig.complete_workspace(VPC).await;
    let ready = rig
        .wait_until("Cluster", "demo", |it| {
            it["status"]["initialization"]["infrastructureProvisioned"] == true
        })
        .await;
    assert_eq!(ready["status"]["failureDomains"][0], json!({"name": "eu-central-1a", "controlPlane": true}));
    assert_eq!(condition_status(&ready, "ControlPlaneInitialized"), pair("False", "NotInitialized"));
    initialize_control_plane(&rig).await;
    let done = rig.wait_until("Cluster", "demo", |it| it["status"]["phase"] == "Provisioned").await;
    assert_eq!(done["spec"]["controlPlaneEndpoint"]["port"], 443);
    rig.wait_until("Cluster", "demo", |it| condition_status(it, "Available") == pair("True", "Available"))
        .await;
    rig.wait_until("CAPTCluster", NET, |it| {
        it["status"]["endpoint"] == done["spec"]["controlPlaneEndpoint"]["host"]
    })
    .await;
}

#[tokio::test]
async fn a_settled_cluster_is_not_written_again() {
    let rig = start().await;
    create_available_cluster(&rig).await;
    // The first reconciles may still belong to the creation.
    for attempt in 1.. {
        rig.wait_until_idle().await;
        rig.server.request_log().clear();
        for _ in 0..3 {
            rig.trigger_by("CAPTControlPlane", ("captcontrolplanes", CP)).await;
        }
        let writes = rig.server.request_log().writes_by(USER_AGENT);
        if writes.is_empty() {
            break;
        }
        assert!(attempt < 5, "looks lead to writes: {writes:#?}");
    }
}

#[tokio::test]
async fn the_control_plane_goes_first_then_the_network_then_the_cluster() {
    let rig = start().await;
    create_available_cluster(&rig).await;
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": [names::APPLY_FINALIZER]}})).await;
    rig.delete("Cluster", "demo").await;
    rig.wait_until("CAPTControlPlane", CP, is_deleting).await;
    let waits = rig
        .wait_until("Cluster", "demo", |it| {
            condition_status(it, "Deleting").1 == "WaitingForControlPlaneDeletion"
        })
        .await;
    assert_eq!(waits["status"]["phase"], "Deleting");
    rig.wait_until_idle().await;
    assert!(!is_deleting(&rig.get("CAPTCluster", NET).await.unwrap()), "the control plane is still there");
    rig.merge("CAPTControlPlane", CP, json!({"metadata": {"finalizers": []}})).await;
    rig.wait_until("CAPTCluster", NET, is_deleting).await;
    rig.wait_until("Cluster", "demo", |it| {
        condition_status(it, "Deleting").1 == "WaitingForInfrastructureDeletion"
    })
    .await;
    rig.wait_until(WTA, VPC, is_deleting).await;
    assert!(rig.get("Cluster", "demo").await.is_some());
    rig.merge(WTA, VPC, json!({"metadata": {"finalizers": []}})).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    rig.wait_until_gone("Cluster", "demo").await;
}

#[tokio::test]
async fn a_paused_cluster_gets_one_condition_and_nothing_else() {
    let rig = TestEnv::start().await;
    let paused = json!({"metadata": {"name": "demo", "annotations": {names::PAUSED_ANNOTATION: ""}},
        "spec": {"infrastructureRef": {"apiGroup": names::INFRASTRUCTURE_GROUP, "kind": "CAPTCluster", "name": NET}}});
    rig.create("Cluster", paused).await;
    create_referenced_objects(&rig).await;
    rig.run_standalone();
    let told = rig
        .wait_until("Cluster", "demo", |it| condition_status(it, "Paused") == pair("True", "Paused"))
        .await;
    rig.wait_until_idle().await;
    assert_eq!(told["metadata"].get("finalizers"), None);
    assert_eq!(rig.get("CAPTCluster", NET).await.unwrap()["metadata"].get("ownerReferences"), None);
    rig.merge("Cluster", "demo", json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: null}}}))
        .await;
    rig.wait_until("CAPTCluster", NET, |it| it["metadata"].get("ownerReferences").is_some()).await;
}

#[tokio::test]
async fn a_network_that_vanished_is_an_error_and_the_latch_stays() {
    let rig = start().await;
    create_available_cluster(&rig).await;
    rig.delete("CAPTCluster", NET).await;
    rig.merge("CAPTControlPlane", CP, json!({"metadata": {"finalizers": []}})).await;
    rig.delete("CAPTControlPlane", CP).await;
    rig.wait_until_gone("CAPTCluster", NET).await;
    let told = rig
        .wait_until("Cluster", "demo", |it| condition_status(it, "InfrastructureReady").1 == "ObjectDeleted")
        .await;
    assert_eq!(
        condition_message(&told, "InfrastructureReady"),
        "CAPTCluster has been deleted after being provisioned"
    );
    assert_eq!(told["status"]["initialization"]["infrastructureProvisioned"], true);
    assert_eq!(condition_status(&told, "Available").0, "False");
}

#[tokio::test]
async fn an_endpoint_of_the_user_is_respected() {
    let rig = start().await;
    rig.create_cluster("demo").await;
    rig.merge(
        "Cluster",
        "demo",
        json!({"spec": {"controlPlaneEndpoint": {"host": "mine.example", "port": 8443}}}),
    )
    .await;
    create_referenced_objects(&rig).await;
    rig.wait_until(WTA, VPC, |_| true).await;
    rig.complete_workspace(VPC).await;
    initialize_control_plane(&rig).await;
    let done = rig.wait_until("Cluster", "demo", |it| condition_status(it, "Available").0 == "True").await;
    assert_eq!(done["spec"]["controlPlaneEndpoint"], json!({"host": "mine.example", "port": 8443}));
}

#[tokio::test]
async fn a_reference_to_an_unknown_kind_is_told() {
    let rig = TestEnv::start().await;
    rig.run_standalone();
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "x"});
    rig.create("Cluster", json!({"metadata": {"name": "demo"}, "spec": {"infrastructureRef": reference}}))
        .await;
    let told = rig
        .wait_until("Cluster", "demo", |it| condition_status(it, "InfrastructureReady").1 == "InternalError")
        .await;
    assert!(condition_message(&told, "InfrastructureReady").contains("AWSCluster"), "{told:#}");
}
