//! Fixtures for the tests of the pure steps.

use kube::{api::ApiResource, core::GroupVersionKind};
use serde_json::{Value, json};

use super::{
    cluster_types::Cluster,
    referenced_object::{ReferenceRole, ReferencedObject},
};

/// Cluster team/demo with both references; `rest` is merged into it.
pub(super) fn cluster(rest: Value) -> Cluster {
    let mut whole = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "demo", "namespace": "team", "uid": "u1", "generation": 2},
        "spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CAPTCluster", "name": "net"},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": "cp"},
        },
    });
    merge_json(&mut whole, rest);
    serde_json::from_value(whole).unwrap()
}

/// A referenced object; `rest` is merged into it.
pub(super) fn referenced_object(role: ReferenceRole, rest: Value) -> ReferencedObject {
    let (group, kind, name) = match role {
        ReferenceRole::Infrastructure => ("infrastructure.cluster.x-k8s.io", "CAPTCluster", "net"),
        ReferenceRole::ControlPlane => ("controlplane.cluster.x-k8s.io", "CAPTControlPlane", "cp"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta1", kind));
    let mut whole = json!({
        "apiVersion": resource.api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "team", "resourceVersion": "7"}, "spec": {},
    });
    merge_json(&mut whole, rest);
    ReferencedObject { role, resource, object: serde_json::from_value(whole).unwrap() }
}

fn merge_json(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                merge_json(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}
