//! Objects for the tests of pure steps. Names differ from each other on purpose.

use capt_engine::aws::Principal;
use capt_kinds::api::{CaptControlPlane, WorkspaceTemplateApply};
use serde_json::{Value, json};

use super::dereference::{AccessSecrets, ClusterNetwork, ControlPlaneReferences};
use crate::common::cluster::CapiClusterView;

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
pub(super) fn network(spec: &Value) -> ClusterNetwork {
    let object = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
        "metadata": {"name": "net", "namespace": "team", "uid": "n1"}, "spec": spec,
    }))
    .unwrap();
    ClusterNetwork { object, workspace: None }
}

/// A workspace of generation 1 owned by `cp`.
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

/// The status of a workspace after a successful run, with these outputs.
pub(super) fn completed_status(outputs: &Value) -> Value {
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

/// References of `cp` in the Cluster `demo`, whose network is ready; nothing is created yet.
pub(super) fn references() -> ControlPlaneReferences {
    ControlPlaneReferences {
        cluster: CapiClusterView {
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
        eks_workspace: None,
        profile_workspaces: Vec::new(),
        name_conflicts: std::collections::BTreeMap::default(),
        others: Vec::new(),
        adopted_arns: std::collections::BTreeSet::new(),
        requires_owner_tag: true,
        secrets: AccessSecrets::default(),
        principal: Ok(Principal::from_default_chain()),
    }
}
