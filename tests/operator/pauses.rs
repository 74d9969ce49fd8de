//! P15 and P11: what is left alone, and what must not go before its time.

use capt::api::{CaptIdentity, WorkspaceTemplateApply, names};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    stage::{Stage, condition},
    workspaces::{another_is_made, apply_all, hold, is_paused, is_ready, log, ready, recorder_with, release},
};

fn clusters(stage: &Stage) -> Api<DynamicObject> {
    let kind = capt::controllers::common::cluster::resource("v1beta2");
    Api::namespaced_with(stage.client(), "default", &kind)
}

async fn pause(stage: &Stage, paused: bool) {
    let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
    clusters(stage).patch("demo", &PatchParams::default(), &patch).await.unwrap();
}

/// A workspace of the Cluster `demo` that records what happens to it.
async fn slow(stage: &Stage, name: &str) {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
    for mut object in recorder_with(stage, "default", name, &json!({})).as_array().unwrap().clone() {
        object["metadata"]["labels"] = labels.clone();
        stage.apply_value(object).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p15_a_paused_cluster_begins_nothing_and_what_runs_ends_well_also_while_deleting() {
    let mut stage = Stage::without_aws().await;
    stage
        .apply_value(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "demo", "namespace": "default"}, "spec": {"paused": false}}))
        .await;
    hold(&stage);
    slow(&stage, "running").await;
    let begun = async || log(&stage).contains(&"begun running".to_owned());
    stage.eventually("an apply goes on", begun).await;
    pause(&stage, true).await;
    slow(&stage, "new").await;
    stage.until("new", "told that it is paused", is_paused).await;
    release(&stage);
    // The running apply is not broken off, and its end is noted.
    stage.eventually("it ended", async || log(&stage).contains(&"made running".to_owned())).await;
    stage.until("running", "told that it is paused", is_paused).await;
    // A deletion waits, too.
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete("running", &DeleteParams::default()).await.unwrap();
    another_is_made(&stage, "other").await;
    assert_eq!(log(&stage), ["begun running", "made running"], "nothing began while paused");
    let kept = stage.workspace("running").await;
    assert!(kept.metadata.deletion_timestamp.is_some() && !kept.finalizers().is_empty());
    assert!(stage.workspace("new").await.status.unwrap().run.is_none());

    pause(&stage, false).await;
    stage.until_gone::<WorkspaceTemplateApply>("running").await;
    ready(&stage, "new").await;
    let mut all = log(&stage);
    all.sort();
    assert_eq!(all, ["begun new", "begun running", "gone running", "made new", "made running"]);
    stage.stop().await;
}

fn identity() -> [Value; 2] {
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
    let mut stage = Stage::without_aws().await;
    for object in identity() {
        stage.apply_value(object).await;
    }
    let more = json!({"identityRef": {"name": "ours"}});
    apply_all(&stage, recorder_with(&stage, "default", "held", &more)).await;
    stage.until("held", "ready", is_ready).await;
    // Somebody deletes everything but the workspace.
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
        condition(&found.status.unwrap_or_default().conditions, "Deleting", "True")
    };
    stage.eventually("the identity is told that it is used", told).await;
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
    std::fs::remove_dir_all(stage.data()).unwrap();
    stage.start().await;
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete("held", &DeleteParams::default()).await.unwrap();
    stage.until_gone::<WorkspaceTemplateApply>("held").await;
    assert_eq!(log(&stage), ["begun held", "made held", "gone held"]);
    // With its last user, everything else goes.
    let gone = async || identities.get_opt("ours").await.unwrap().is_none();
    stage.eventually("the identity is gone", gone).await;
    let gone = async || secrets.get_opt("keys").await.unwrap().is_none();
    stage.eventually("its Secret is gone", gone).await;
    stage.stop().await;
}
