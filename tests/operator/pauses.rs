//! P15 and P11: paused objects are not reconciled, and objects in use are not deleted early.

use capt_kinds::api::{CaptIdentity, WorkspaceTemplateApply, names};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    harness::{OperatorHarness, has_condition},
    workspaces::{
        apply_all, apply_another_workspace, block_applies, is_paused, is_ready, read_log,
        recording_workspace_with, unblock_applies, wait_until_ready,
    },
};

fn clusters_api(stage: &OperatorHarness) -> Api<DynamicObject> {
    let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
    Api::namespaced_with(stage.client(), "default", &kind)
}

async fn set_paused(stage: &OperatorHarness, paused: bool) {
    let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
    clusters_api(stage).patch("demo", &PatchParams::default(), &patch).await.unwrap();
}

/// A workspace of the Cluster `demo` that records what happens to it.
async fn create_recording_workspace(stage: &OperatorHarness, name: &str) {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
    for mut object in recording_workspace_with(stage, "default", name, &json!({})).as_array().unwrap().clone()
    {
        object["metadata"]["labels"] = labels.clone();
        stage.apply_value(object).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p15_a_paused_cluster_begins_nothing_and_what_runs_ends_well_also_while_deleting() {
    let mut stage = OperatorHarness::without_aws().await;
    stage
        .apply_value(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "demo", "namespace": "default"}, "spec": {"paused": false}}))
        .await;
    block_applies(&stage);
    create_recording_workspace(&stage, "running").await;
    let begun = async || read_log(&stage).contains(&"begun running".to_owned());
    stage.wait_for("an apply goes on", begun).await;
    set_paused(&stage, true).await;
    create_recording_workspace(&stage, "new").await;
    stage.wait_until("new", "told that it is paused", is_paused).await;
    unblock_applies(&stage);
    // The running apply is not broken off, and its end is noted.
    stage.wait_for("it ended", async || read_log(&stage).contains(&"made running".to_owned())).await;
    stage.wait_until("running", "told that it is paused", is_paused).await;
    // A deletion waits, too.
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete("running", &DeleteParams::default()).await.unwrap();
    apply_another_workspace(&stage, "other").await;
    assert_eq!(read_log(&stage), ["begun running", "made running"], "nothing began while paused");
    let kept = stage.workspace("running").await;
    assert!(kept.metadata.deletion_timestamp.is_some() && !kept.finalizers().is_empty());
    assert!(stage.workspace("new").await.status.unwrap().run.is_none());

    set_paused(&stage, false).await;
    stage.wait_until_deleted::<WorkspaceTemplateApply>("running").await;
    wait_until_ready(&stage, "new").await;
    let mut all = read_log(&stage);
    all.sort();
    assert_eq!(all, ["begun new", "begun running", "gone running", "made new", "made running"]);
    stage.stop().await;
}

fn identity_objects() -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"},
            "stringData": {"accessKeyID": "AKIAIOSFODNN7EXAMPLE", "secretAccessKey": "secret"}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTIdentity",
            "metadata": {"name": "ours"},
            "spec": {"source": "Secret", "secretRef": {"name": "keys", "namespace": "default"},
                     "allowedNamespaces": {"list": ["default"]}}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_credentials_and_state_in_use_are_held_until_the_destroy_is_over() {
    let mut stage = OperatorHarness::without_aws().await;
    for object in identity_objects() {
        stage.apply_value(object).await;
    }
    let more = json!({"identityRef": {"name": "ours"}});
    apply_all(&stage, recording_workspace_with(&stage, "default", "held", &more)).await;
    stage.wait_until("held", "ready", is_ready).await;
    // Delete everything but the workspace.
    let secrets = stage.api::<Secret>("default");
    let states =
        secrets.list(&kube::api::ListParams::default().labels(names::STATE_LABEL)).await.unwrap().items;
    assert!(!states.is_empty());
    for name in states.iter().map(ResourceExt::name_any).chain(["keys".to_owned()]) {
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
    }
    let identities: Api<CaptIdentity> = Api::all(stage.client());
    identities.delete("ours", &DeleteParams::default()).await.unwrap();
    let told = async || {
        let found = identities.get("ours").await.unwrap();
        has_condition(&found.status.unwrap_or_default().conditions, "Deleting", "True")
    };
    stage.wait_for("the identity is told that it is used", told).await;
    for secret in secrets.list(&kube::api::ListParams::default()).await.unwrap() {
        assert!(
            secret.finalizers().iter().any(|it| it == names::IN_USE_FINALIZER)
                || secret.name_any() == "held-out",
            "{}",
            secret.name_any()
        );
    }
    assert!(secrets.get_opt("keys").await.unwrap().is_some());
    // On an empty disk: the destroy has nothing but what was held.
    stage.stop().await;
    std::fs::remove_dir_all(stage.data_dir()).unwrap();
    stage.start().await;
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete("held", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("held").await;
    assert_eq!(read_log(&stage), ["begun held", "made held", "gone held"]);
    // With its last user, everything else goes.
    let gone = async || identities.get_opt("ours").await.unwrap().is_none();
    stage.wait_for("the identity is gone", gone).await;
    let gone = async || secrets.get_opt("keys").await.unwrap().is_none();
    stage.wait_for("its Secret is gone", gone).await;
    stage.stop().await;
}
