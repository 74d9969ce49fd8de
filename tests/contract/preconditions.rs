//! Preconditions: no run without an owner, without infrastructure, or while paused.

use std::sync::Arc;

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    case_namespace::{CaseNamespace, has_condition},
    fake_capi_core::{self, owner_reference, set_owner_references},
    harness::ContractHarness,
};

/// Makes another generation of a network, and waits until the operator has said about that one that it has no owner.
async fn wait_for_missing_owner(place: &CaseNamespace, name: &str) {
    let edit = Patch::Merge(json!({"spec": {"region": "eu-west-1"}}));
    place.api::<CaptCluster>().patch(name, &PatchParams::default(), &edit).await.unwrap();
    let waits = |it: &CaptCluster| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        let mut current = conditions.iter().filter(|of| of.observed_generation == it.metadata.generation);
        current.any(|it| it.type_ == "Ready" && it.reason == "WaitingForOwner")
    };
    place.wait_until(name, "waiting for an owner", waits).await;
}

pub(crate) async fn p3_nothing_runs_before_a_cluster_owns_it(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p3").await;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "c-shim"}})).unwrap();
    let secret = place.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    let mut objects =
        vec![place.recording_template("network", &json!({"vpc_id": "vpc-1"})), fake_capi_core::cluster("c")];
    let names = ["nobody", "shim", "stranger", "namesake"];
    objects.extend(names.map(|name| fake_capi_core::network(name, "network")));
    place.apply(&json!(objects)).await;
    let cluster = place.clusters().get("c").await.unwrap();

    // Topology objects belong to a Secret at first; another Cluster kind is not ours; a Cluster of the same name is not the
    // same Cluster. The garbage collector takes objects whose owner does not exist.
    let shim =
        json!([{"apiVersion": "v1", "kind": "Secret", "name": "c-shim", "uid": secret.uid().unwrap()}]);
    fake_capi_core::patch_owners::<CaptCluster>(&place, "shim", shim).await;
    let mut stranger = owner_reference(&cluster);
    stranger["apiVersion"] = json!("example.com/v1");
    fake_capi_core::patch_owners::<CaptCluster>(&place, "stranger", json!([stranger])).await;
    let mut namesake = owner_reference(&cluster);
    namesake["uid"] = json!("00000000-0000-0000-0000-000000000000");
    fake_capi_core::patch_owners::<CaptCluster>(&place, "namesake", json!([namesake])).await;
    // The namesake was changed before these, and may be gone by now.
    for name in ["shim", "stranger", "nobody"] {
        wait_for_missing_owner(&place, name).await;
    }
    assert_eq!(place.count::<WorkspaceTemplateApply>().await, 0, "a workspace was made");
    assert_eq!(place.recorded_lines(), Vec::<String>::new(), "terraform ran");

    // And then core comes.
    fake_capi_core::patch_owners::<CaptCluster>(&place, "nobody", json!([owner_reference(&cluster)])).await;
    place.wait_for("it was made", async || place.recorded_lines() == ["made network"]).await;
}

pub(crate) async fn p3_a_control_plane_waits_for_its_infrastructure(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p3-latch").await;
    place
        .apply(&json!([
            place.recording_template("eks", &json!({"cluster_name": "c"})),
            fake_capi_core::cluster("c"),
            fake_capi_core::control_plane("c", "eks"),
        ]))
        .await;
    let cluster = place.clusters().get("c").await.unwrap();
    fake_capi_core::patch_owners::<CaptControlPlane>(&place, "c", json!([owner_reference(&cluster)])).await;
    let waits = |it: &CaptControlPlane| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|it| it.reason == "WaitingForVPC")
    };
    place.wait_until("c", "waiting for its network", waits).await;
    assert_eq!(place.count::<WorkspaceTemplateApply>().await, 0, "a workspace was made before the network");
    let patch = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    place.clusters().patch_status("c", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    place.wait_for("it was made", async || place.recorded_lines() == ["made eks"]).await;
}

async fn set_paused(place: &CaseNamespace, paused: Value) {
    let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
    place.clusters().patch("c", &PatchParams::default(), &patch).await.unwrap();
}

pub(crate) async fn p15_a_pause_stops_everything_until_it_ends(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p15").await;
    fake_capi_core::create_cluster_with_network(&place).await;
    set_paused(&place, json!(true)).await;
    set_owner_references(&place, "c").await;
    let paused =
        |it: &CaptCluster| has_condition(&it.status.clone().unwrap_or_default().conditions, "Paused", "True");
    place.wait_until("c", "paused", paused).await;
    assert_eq!((place.count::<WorkspaceTemplateApply>().await, place.recorded_lines().len()), (0, 0));
    set_paused(&place, Value::Null).await;
    fake_capi_core::mark_infrastructure_provisioned(&place, "c").await;
    place
        .wait_until("c", "not paused", |it: &CaptCluster| {
            has_condition(&it.status.clone().unwrap_or_default().conditions, "Paused", "False")
        })
        .await;

    // A deletion waits, too.
    set_paused(&place, json!(true)).await;
    place.wait_until("c", "paused again", paused).await;
    place.api::<CaptCluster>().delete("c", &DeleteParams::default()).await.unwrap();
    // A deletion is another generation, and the condition tells which one was seen.
    let is_seen = |it: &CaptCluster| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        let current = |of: &Condition| of.observed_generation == it.metadata.generation;
        conditions.iter().any(|it| it.type_ == "Paused" && it.status == "True" && current(it))
    };
    place.wait_until("c", "paused while it is deleted", is_seen).await;
    assert_eq!(place.recorded_lines(), ["made network"], "it was destroyed while paused");
    set_paused(&place, Value::Null).await;
    place.wait_until_deleted::<CaptCluster>("c").await;
    assert_eq!(place.recorded_lines(), ["made network", "gone network"]);
}
