//! Objects for the tests of pure steps. Names differ from each other on purpose.

use serde_json::{Value, json};

use super::dereference::{Network, Secrets, Seen};
use crate::{
    api::{CaptControlPlane, WorkspaceTemplateApply},
    aws::Principal,
    controllers::common::cluster::ClusterView,
};

/// A control plane `cp` in namespace `team`.
pub(super) fn control_plane(spec: &Value) -> CaptControlPlane {
    serde_json::from_value(json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
        "metadata": {"name": "cp", "namespace": "team", "uid": "c1", "generation": 3,
            "creationTimestamp": "2026-11-01T09:00:00Z"},
        "spec": spec,
    }))
    .unwrap()
}

/// The network `net` of the same cluster.
pub(super) fn network(spec: &Value) -> Network {
    let object = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
        "metadata": {"name": "net", "namespace": "team", "uid": "n1"}, "spec": spec,
    }))
    .unwrap();
    Network { object, apply: None }
}

/// A workspace of generation 1 that `cp` made.
pub(super) fn workspace(name: &str, spec: &Value, status: &Value) -> WorkspaceTemplateApply {
    let owner = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
        "name": "cp", "uid": "c1", "controller": true, "blockOwnerDeletion": true});
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "generation": 1,
            "creationTimestamp": "2026-11-01T09:30:00Z", "ownerReferences": [owner]},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

/// The status of a workspace that is done, with these outputs.
pub(super) fn done(outputs: &Value) -> Value {
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-01T10:00:00Z"})
    };
    json!({
        "observedGeneration": 1, "applied": true, "lastAppliedTime": "2026-11-01T10:00:00Z", "outputs": outputs,
        "conditions": [condition("Ready", "Available"), condition("Synced", "ReconcileSuccess")],
        "run": {"id": "r1", "operation": "Apply", "phase": "Succeeded", "finishedAt": "2026-11-01T10:00:00Z"},
    })
}

/// What belongs to `cp` of the Cluster `demo`, whose network is complete; nothing was made yet.
pub(super) fn seen() -> Seen {
    Seen {
        cluster: ClusterView {
            namespace: "team".to_owned(),
            name: "demo".to_owned(),
            uid: "u1".to_owned(),
            paused: false,
            deleting: false,
            infrastructure_provisioned: true,
            endpoint: None,
            region: None,
        },
        network: Some(network(&json!({"region": "eu-central-1"}))),
        eks: None,
        profiles: Vec::new(),
        taken: std::collections::BTreeMap::default(),
        connection: None,
        secrets: Secrets::default(),
        principal: Ok(Principal::own()),
    }
}
