//! The fields of a Cluster API `Cluster` that the controllers read. Only the standalone controller writes Clusters.

use capt_kinds::api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::Value;

/// The fields of a Cluster that the controllers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapiClusterView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Distinguishes it from an earlier Cluster of the same name.
    pub uid: String,
    /// Whether reconciliation of the Cluster and its objects is paused.
    pub paused: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the infrastructure is provisioned.
    pub infrastructure_provisioned: bool,
    /// Host and port of its API server.
    pub endpoint: Option<(String, i64)>,
    /// Its region, from the annotation that upstream's users set.
    pub region: Option<String>,
}

impl CapiClusterView {
    /// Reads any served version of the kind.
    pub fn from_object(object: &DynamicObject) -> Self {
        let at = |path: &str| object.data.pointer(path);
        let truth = |path: &str| at(path).and_then(Value::as_bool).unwrap_or(false);
        let host = at("/spec/controlPlaneEndpoint/host").and_then(Value::as_str).unwrap_or_default();
        let port = at("/spec/controlPlaneEndpoint/port").and_then(Value::as_i64).unwrap_or_default();
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let meta = &object.metadata;
        let note = |name: &str| meta.annotations.as_ref().and_then(|it| it.get(name)).cloned();
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            // The pause annotation of the Cluster itself is not inherited by its objects; only `spec.paused` is.
            paused: truth("/spec/paused"),
            deleting: meta.deletion_timestamp.is_some(),
            infrastructure_provisioned: truth("/status/initialization/infrastructureProvisioned")
                || truth("/status/infrastructureReady"),
            endpoint: (!host.is_empty() && port != 0).then(|| (host.to_owned(), port)),
            region: note(names::REGION_ANNOTATION),
        }
    }
}

/// Name of the control plane that a Cluster references, if it is a `CAPTControlPlane`.
pub fn control_plane_name(object: &DynamicObject) -> Option<&str> {
    let reference = object.data.pointer("/spec/controlPlaneRef")?;
    let ours = reference.get("kind")?.as_str()? == "CAPTControlPlane";
    reference.get("name")?.as_str().filter(|_| ours)
}

/// The `ApiResource` of Clusters in this version.
pub fn cluster_resource(version: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk(names::CLUSTER_API_GROUP, version, "Cluster");
    ApiResource::from_gvk_with_plural(&kind, "clusters")
}

/// The owner reference to a Cluster. Ignores the temporary Secret owner that a `ClusterClass` topology sets first, and Clusters
/// of other API groups.
pub fn owner_cluster_ref(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let ours = |it: &&OwnerReference| {
        it.kind == "Cluster" && it.api_version.split('/').next() == Some(names::CLUSTER_API_GROUP)
    };
    meta.owner_references.iter().flatten().find(ours)
}

/// Value of the cluster name label.
pub fn cluster_name_label(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.as_ref()?.get(names::CLUSTER_NAME_LABEL).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(rest: &Value) -> DynamicObject {
        let mut whole = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "demo", "namespace": "team", "uid": "u1"},
        });
        for (name, value) in rest.as_object().unwrap() {
            whole[name] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    fn owned_by(api_version: &str, kind: &str) -> ObjectMeta {
        let owner = OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: "demo".to_owned(),
            uid: "u1".to_owned(),
            ..OwnerReference::default()
        };
        ObjectMeta { owner_references: Some(vec![owner]), ..ObjectMeta::default() }
    }

    #[test]
    fn both_contracts_tell_of_the_network() {
        let new = cluster(&json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
        let old = cluster(&json!({"status": {"infrastructureReady": true}}));
        assert!(CapiClusterView::from_object(&new).infrastructure_provisioned);
        assert!(CapiClusterView::from_object(&old).infrastructure_provisioned);
        assert!(!CapiClusterView::from_object(&cluster(&json!({}))).infrastructure_provisioned);
    }

    #[test]
    fn an_endpoint_of_zeroes_is_none() {
        let empty = cluster(&json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}}));
        assert_eq!(CapiClusterView::from_object(&empty).endpoint, None);
        let full = cluster(&json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 443}}}));
        assert_eq!(CapiClusterView::from_object(&full).endpoint, Some(("h".to_owned(), 443)));
    }

    #[test]
    fn only_a_control_plane_of_ours_is_followed() {
        let of = |kind: &str| cluster(&json!({"spec": {"controlPlaneRef": {"kind": kind, "name": "cp"}}}));
        assert_eq!(control_plane_name(&of("CAPTControlPlane")), Some("cp"));
        assert_eq!(control_plane_name(&of("KubeadmControlPlane")), None);
        assert_eq!(control_plane_name(&cluster(&json!({"spec": {}}))), None);
    }

    #[test]
    fn only_a_cluster_of_cluster_api_is_an_owner() {
        for version in ["v1beta1", "v1beta2"] {
            assert!(
                owner_cluster_ref(&owned_by(&format!("cluster.x-k8s.io/{version}"), "Cluster")).is_some()
            );
        }
        assert!(owner_cluster_ref(&owned_by("v1", "Secret")).is_none());
        assert!(owner_cluster_ref(&owned_by("example.com/v1", "Cluster")).is_none());
        assert!(owner_cluster_ref(&owned_by("cluster.x-k8s.io/v1beta2", "ClusterClass")).is_none());
    }
}
