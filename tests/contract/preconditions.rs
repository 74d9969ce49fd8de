//! When nothing may happen.

use std::sync::Arc;

use capt::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    core::{self, adopt, owned_by},
    place::{Place, condition},
    world::World,
};

/// Makes another generation of a network, and waits until the operator has said about that one that it has no owner.
async fn is_refused(place: &Place, name: &str) {
    let edit = Patch::Merge(json!({"spec": {"region": "eu-west-1"}}));
    place.api::<CaptCluster>().patch(name, &PatchParams::default(), &edit).await.unwrap();
    let waits = |it: &CaptCluster| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        let mut current = conditions.iter().filter(|of| of.observed_generation == it.metadata.generation);
        current.any(|it| it.type_ == "Ready" && it.reason == "WaitingForOwner")
    };
    place.until(name, "waiting for an owner", waits).await;
}

pub(crate) async fn p3_nothing_runs_before_a_cluster_owns_it(world: Arc<World>) {
    let place = Place::make(world, "p3").await;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "c-shim"}})).unwrap();
    let secret = place.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    let mut objects = vec![place.recorder("network", &json!({"vpc_id": "vpc-1"})), core::cluster("c")];
    let names = ["nobody", "shim", "stranger", "namesake"];
    objects.extend(names.map(|name| core::network(name, "network")));
    place.apply(&json!(objects)).await;
    let cluster = place.clusters().get("c").await.unwrap();

    // Topology objects belong to a Secret at first; another Cluster kind is not ours; a Cluster of the same name is not the
    // same Cluster. The garbage collector takes objects whose owner does not exist.
    let shim =
        json!([{"apiVersion": "v1", "kind": "Secret", "name": "c-shim", "uid": secret.uid().unwrap()}]);
    core::own::<CaptCluster>(&place, "shim", shim).await;
    let mut stranger = owned_by(&cluster);
    stranger["apiVersion"] = json!("example.com/v1");
    core::own::<CaptCluster>(&place, "stranger", json!([stranger])).await;
    let mut namesake = owned_by(&cluster);
    namesake["uid"] = json!("00000000-0000-0000-0000-000000000000");
    core::own::<CaptCluster>(&place, "namesake", json!([namesake])).await;
    // The namesake was changed before these, and may be gone by now.
    for name in ["shim", "stranger", "nobody"] {
        is_refused(&place, name).await;
    }
    assert_eq!(place.count::<WorkspaceTemplateApply>().await, 0, "a workspace was made");
    assert_eq!(place.recorded(), Vec::<String>::new(), "terraform ran");

    // And then core comes.
    core::own::<CaptCluster>(&place, "nobody", json!([owned_by(&cluster)])).await;
    place.eventually("it was made", async || place.recorded() == ["made network"]).await;
}

pub(crate) async fn p3_a_control_plane_waits_for_its_infrastructure(world: Arc<World>) {
    let place = Place::make(world, "p3-latch").await;
    place
        .apply(&json!([
            place.recorder("eks", &json!({"cluster_name": "c"})),
            core::cluster("c"),
            core::control_plane("c", "eks"),
        ]))
        .await;
    let cluster = place.clusters().get("c").await.unwrap();
    core::own::<CaptControlPlane>(&place, "c", json!([owned_by(&cluster)])).await;
    let waits = |it: &CaptControlPlane| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|it| it.reason == "WaitingForVPC")
    };
    place.until("c", "waiting for its network", waits).await;
    assert_eq!(place.count::<WorkspaceTemplateApply>().await, 0, "a workspace was made before the network");
    let patch = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    place.clusters().patch_status("c", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    place.eventually("it was made", async || place.recorded() == ["made eks"]).await;
}

async fn pause(place: &Place, paused: Value) {
    let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
    place.clusters().patch("c", &PatchParams::default(), &patch).await.unwrap();
}

pub(crate) async fn p15_a_pause_stops_everything_until_it_ends(world: Arc<World>) {
    let place = Place::make(world, "p15").await;
    core::ask_for_network(&place).await;
    pause(&place, json!(true)).await;
    adopt(&place, "c").await;
    let paused =
        |it: &CaptCluster| condition(&it.status.clone().unwrap_or_default().conditions, "Paused", "True");
    place.until("c", "paused", paused).await;
    assert_eq!((place.count::<WorkspaceTemplateApply>().await, place.recorded().len()), (0, 0));
    pause(&place, Value::Null).await;
    core::provisioned(&place, "c").await;
    place
        .until("c", "not paused", |it: &CaptCluster| {
            condition(&it.status.clone().unwrap_or_default().conditions, "Paused", "False")
        })
        .await;

    // A deletion waits, too.
    pause(&place, json!(true)).await;
    place.until("c", "paused again", paused).await;
    place.api::<CaptCluster>().delete("c", &DeleteParams::default()).await.unwrap();
    // A deletion is another generation, and the condition tells which one was seen.
    let is_seen = |it: &CaptCluster| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        let current = |of: &Condition| of.observed_generation == it.metadata.generation;
        conditions.iter().any(|it| it.type_ == "Paused" && it.status == "True" && current(it))
    };
    place.until("c", "paused while it is deleted", is_seen).await;
    assert_eq!(place.recorded(), ["made network"], "it was destroyed while paused");
    pause(&place, Value::Null).await;
    place.until_gone::<CaptCluster>("c").await;
    assert_eq!(place.recorded(), ["made network", "gone network"]);
}
