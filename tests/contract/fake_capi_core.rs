//! The part of Cluster API's core, played by hand, step by step: owners, latches, the order of a deletion.

use capt::api::{CaptCluster, CaptControlPlane};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::place::Place;

/// A Cluster of two parts that have its name.
pub(crate) fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
        "spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CAPTCluster", "name": name},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": name},
        },
    })
}

/// Its network, from a template.
pub(crate) fn network(name: &str, template: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster", "metadata": {"name": name},
        "spec": {"region": "eu-central-1", "vpcTemplateRef": {"name": template}},
    })
}

/// Asks for the Cluster `c` whose network a template makes, and leaves the rest to core.
pub(crate) async fn ask_for_network(place: &Place) {
    let template = place.recorder("network", &json!({"vpc_id": "vpc-1"}));
    place.apply(&json!([template, cluster("c"), network("c", "network")])).await;
}

/// Its control plane, from a template.
pub(crate) fn control_plane(name: &str, template: &str) -> Value {
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "metadata": {"name": name},
        "spec": {
            "version": "v1.33.0", "workspaceTemplateRef": {"name": template},
            "controlPlaneConfig": {"region": "eu-central-1"},
        },
    })
}

/// The reference that core sets: no controller, nothing blocked.
pub(crate) fn owned_by(cluster: &DynamicObject) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "name": cluster.name_any(), "uid": cluster.uid().unwrap(),
    })
}

/// Sets the owners of an object.
pub(crate) async fn own<K>(place: &Place, name: &str, owners: Value)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let api: Api<K> = place.api();
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// What core does first with a new Cluster.
pub(crate) async fn adopt(place: &Place, name: &str) -> DynamicObject {
    let cluster = place.clusters().get(name).await.unwrap();
    own::<CaptCluster>(place, name, json!([owned_by(&cluster)])).await;
    if place.api::<CaptControlPlane>().get_opt(name).await.unwrap().is_some() {
        own::<CaptControlPlane>(place, name, json!([owned_by(&cluster)])).await;
    }
    cluster
}

/// What core does once the network is there.
pub(crate) async fn provisioned(place: &Place, name: &str) {
    let is = |it: &CaptCluster| {
        it.status.clone().and_then(|it| it.initialization).is_some_and(|it| it.provisioned == Some(true))
    };
    place.until(name, "provisioned", is).await;
    let patch = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    place.clusters().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// A network and a control plane from templates that make nothing, both applied.
pub(crate) async fn pair(place: &Place, name: &str) {
    let network_outputs = json!({"vpc_id": "vpc-1", "private_subnets": ["subnet-1", "subnet-2"]});
    place
        .apply(&json!([
            place.recorder("network", &network_outputs),
            place.recorder("eks", &json!({"cluster_name": name})),
            cluster(name),
            network(name, "network"),
            control_plane(name, "eks"),
        ]))
        .await;
    adopt(place, name).await;
    provisioned(place, name).await;
    place.eventually("both are made", async || place.recorded() == ["made network", "made eks"]).await;
}
