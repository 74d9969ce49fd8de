//! AWS identities and EKS clusters of other namespaces (C2, C5).

use capt_engine::aws::Cloud;
use capt_kinds::api::{CaptControlPlane, WorkspaceTemplateApply};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::operator::{
    clusters::{apply_objects, cluster_objects, wait_until_ready},
    harness::OperatorHarness,
    local_aws::LocalAws,
    workspaces::is_ready,
};

const ATTACKER: &str = "team-a";

/// Reason and message of a condition.
fn condition(object: &CaptControlPlane, type_: &str) -> (String, String) {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    let found = conditions.into_iter().find(|it| it.type_ == type_);
    found.map(|it| (it.reason, it.message)).unwrap_or_default()
}

/// Reports the infrastructure of a Cluster without one as provisioned.
async fn provision(stage: &OperatorHarness, cluster: &str) {
    let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
    let clusters: Api<DynamicObject> = Api::namespaced_with(stage.client(), ATTACKER, &kind);
    let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    clusters.patch_status(cluster, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Objects that claim an EKS cluster by its name and create nothing, so that all of their runs succeed.
fn claim(eks_name: &str) -> Value {
    json!([
        {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
         "metadata": {"name": "nothing"},
         "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": "output \"nothing\" { value = 1 }"}}}}},
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "claim"},
         "spec": {"controlPlaneRef":
            {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": "claim"}}},
        {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
         "metadata": {"name": "claim"},
         "spec": {"version": "v1.32.0", "eksClusterName": eks_name, "workspaceTemplateRef": {"name": "nothing"},
                  "controlPlaneConfig": {"region": "eu-central-1"}}},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_nobody_gets_a_kubeconfig_of_somebody_elses_cluster() {
    let aws = LocalAws::start();
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.settings.require_owner_tag = true;
    stage.start().await;
    apply_objects(&stage, &cluster_objects("prod", &json!([]))).await;
    let victim = wait_until_ready(&stage, "prod").await;
    let arn = victim.status.clone().unwrap().eks_cluster_arn.expect("state and tag prove it");
    assert!(arn.ends_with(":cluster/prod"), "{arn}");

    stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ATTACKER}})).await;
    stage.namespace = ATTACKER;
    apply_objects(&stage, &claim("prod")).await;
    provision(&stage, "claim").await;
    let refused: CaptControlPlane =
        stage.wait_until("claim", "refused", |it| condition(it, "Ready").0 == "NameTaken").await;
    assert_eq!(condition(&refused, "KubeconfigReady").0, "NameTaken");
    let (_, message) = condition(&refused, "Ready");
    assert!(message.contains("prod") && !message.contains("default"), "no name of the other: {message}");
    let status = refused.status.unwrap();
    assert!(status.eks_cluster_arn.is_none() && !status.secrets_ready && status.initialization.is_none());
    let secrets = stage.api::<Secret>(ATTACKER).list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = secrets.iter().map(ResourceExt::name_any).collect();
    assert!(!names.iter().any(|it| it.contains("kubeconfig") || it.ends_with("-ca")), "{names:?}");

    stage.namespace = "default";
    let same = wait_until_ready(&stage, "prod").await;
    assert_eq!(same.status.unwrap().eks_cluster_arn, Some(arn), "the owner keeps it");
    stage.stop().await;
}

fn identity(name: &str, namespaces: &[&str]) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTIdentity", "metadata": {"name": name},
        "spec": {"source": "Default", "allowedNamespaces": {"list": namespaces}}})
}

/// Reason and message of the condition `Synced`, if it is false.
fn unsynced(object: &WorkspaceTemplateApply) -> (String, String) {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    let found = conditions.into_iter().find(|it| it.type_ == "Synced" && it.status == "False");
    found.map(|it| (it.reason, it.message)).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_nothing_runs_with_the_operators_own_identity_where_one_is_required() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.settings.require_identity = true;
    stage.start().await;
    stage
        .apply_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"template": {"spec": {"forProvider":
                {"source": "Inline", "module": "resource \"terraform_data\" \"it\" {}"}}}}}),
        )
        .await;
    stage
        .apply_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": "one", "namespace": "default"}, "spec": {"templateRef": {"name": "one"}}}),
        )
        .await;
    let refused: WorkspaceTemplateApply =
        stage.wait_until("one", "refused", |it| unsynced(it).0 == "IdentityRequired").await;
    assert!(unsynced(&refused).1.contains("CAPTIdentity default"), "{:?}", unsynced(&refused));
    assert!(refused.status.unwrap().run.is_none(), "no terraform was started");

    stage.apply_value(identity("default", &["default"])).await;
    let made: WorkspaceTemplateApply = stage.wait_until("one", "ready", is_ready).await;
    assert_eq!(made.status.unwrap().identity_ref.unwrap().name, "default");

    stage.apply_value(identity("default", &["elsewhere"])).await;
    let workspaces = stage.api::<WorkspaceTemplateApply>("default");
    workspaces.delete("one", &DeleteParams::default()).await.unwrap();
    let waiting: WorkspaceTemplateApply =
        stage.wait_until("one", "waiting", |it| unsynced(it).0 == "WaitingForIdentity").await;
    let (_, message) = unsynced(&waiting);
    assert!(
        message.contains("allowedNamespaces") && message.contains("capt.x-k8s.io/destroy-identity"),
        "{message}"
    );
    assert_eq!(waiting.status.unwrap().applied, Some(true), "nothing is destroyed");

    stage.apply_value(identity("rescue", &["default"])).await;
    let assign = json!({"metadata": {"annotations": {"capt.x-k8s.io/destroy-identity": "rescue"}}});
    workspaces.patch("one", &PatchParams::default(), &Patch::Merge(assign)).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("one").await;
    stage.stop().await;
}
