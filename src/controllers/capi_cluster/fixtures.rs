//! Objects for the tests of the pure steps.

use kube::{api::ApiResource, core::GroupVersionKind};
use serde_json::{Value, json};

use super::{
    kind::Cluster,
    part::{Role, Thing},
};

/// Cluster team/demo that refers to a network and a control plane; `rest` is laid over it.
pub(super) fn cluster(rest: Value) -> Cluster {
    let mut whole = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "demo", "namespace": "team", "uid": "u1", "generation": 2},
        "spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CAPTCluster", "name": "net"},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": "cp"},
        },
    });
    lay(&mut whole, rest);
    serde_json::from_value(whole).unwrap()
}

/// An object that it refers to.
pub(super) fn thing(role: Role, rest: Value) -> Thing {
    let (group, kind, name) = match role {
        Role::Infrastructure => ("infrastructure.cluster.x-k8s.io", "CAPTCluster", "net"),
        Role::ControlPlane => ("controlplane.cluster.x-k8s.io", "CAPTControlPlane", "cp"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta1", kind));
    let mut whole = json!({
        "apiVersion": resource.api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "team", "resourceVersion": "7"}, "spec": {},
    });
    lay(&mut whole, rest);
    Thing { role, kind: resource, object: serde_json::from_value(whole).unwrap() }
}

fn lay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                lay(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}
