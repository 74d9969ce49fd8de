//! A fake Cluster API core, step by step: owner references, initialization latches, deletion order.

use capt_kinds::api::{CaptCluster, CaptControlPlane};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::case_namespace::CaseNamespace;

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
pub(crate) async fn create_cluster_with_network(place: &CaseNamespace) {
    let template = place.recording_template("network", &json!({"vpc_id": "vpc-1"}));
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
pub(crate) fn owner_reference(cluster: &DynamicObject) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "name": cluster.name_any(), "uid": cluster.uid().unwrap(),
    })
}

/// Sets the owners of an object.
pub(crate) async fn patch_owners<K>(place: &CaseNamespace, name: &str, owners: Value)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let api: Api<K> = place.api();
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// What core does first with a new Cluster.
pub(crate) async fn set_owner_references(place: &CaseNamespace, name: &str) -> DynamicObject {
    let cluster = place.clusters().get(name).await.unwrap();
    patch_owners::<CaptCluster>(place, name, json!([owner_reference(&cluster)])).await;
    if place.api::<CaptControlPlane>().get_opt(name).await.unwrap().is_some() {
        patch_owners::<CaptControlPlane>(place, name, json!([owner_reference(&cluster)])).await;
    }
    cluster
}

/// What core does once the network is there.
pub(crate) async fn mark_infrastructure_provisioned(place: &CaseNamespace, name: &str) {
    let is = |it: &CaptCluster| {
        it.status.clone().and_then(|it| it.initialization).is_some_and(|it| it.provisioned == Some(true))
    };
    place.wait_until(name, "provisioned", is).await;
    let patch = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    place.clusters().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// A network and a control plane from templates that make nothing, both applied.
pub(crate) async fn create_templated_pair(place: &CaseNamespace, name: &str) {
    let network_outputs = json!({"vpc_id": "vpc-1", "private_subnets": ["subnet-1", "subnet-2"]});
    place
        .apply(&json!([
            place.recording_template("network", &network_outputs),
            place.recording_template("eks", &json!({"cluster_name": name})),
            cluster(name),
            network(name, "network"),
            control_plane(name, "eks"),
        ]))
        .await;
    set_owner_references(place, name).await;
    mark_infrastructure_provisioned(place, name).await;
    place.wait_for("both are made", async || place.recorded_lines() == ["made network", "made eks"]).await;
}
