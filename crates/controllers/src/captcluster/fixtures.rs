//! Fixtures for the tests of the pure steps. All names differ, so that a mix-up fails a test.

use capt_kinds::api::{CaptCluster, WorkspaceTemplateApply};
use serde_json::{Value, json};

use super::dereference::NetworkReferences;
use crate::common::cluster::CapiClusterView;

/// `CAPTCluster` team/net of Cluster demo.
pub(super) fn captcluster(spec: &Value) -> CaptCluster {
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
        "metadata": {
            "name": "net", "namespace": "team", "uid": "n1", "generation": 3,
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "u1"}],
        },
        "spec": spec,
    }))
    .unwrap()
}

/// The workspace of its network.
pub(super) fn workspace(spec: &Value, status: &Value) -> WorkspaceTemplateApply {
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": "net-vpc", "namespace": "team", "uid": "w1", "generation": 1,
                     "creationTimestamp": "2026-11-01T10:00:00Z"},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

/// Its Cluster, and nothing else yet.
pub(super) fn references() -> NetworkReferences {
    let cluster = CapiClusterView {
        namespace: "team".to_owned(),
        name: "demo".to_owned(),
        uid: "u1".to_owned(),
        paused: false,
        deleting: false,
        infrastructure_provisioned: false,
        endpoint: None,
        region: None,
    };
    NetworkReferences {
        cluster,
        control_plane: None,
        apply: None,
        template_names_secret: None,
        hidden_vpc_id: None,
    }
}
