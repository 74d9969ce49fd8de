//! The cases, a file for each area. They are written from what Kubernetes does.

use conformance::{Case, Context, Outcome};
use serde_json::{Value, json};

mod apply;
mod apply_shapes;
mod chain;
mod crd;
mod crd_refused;
mod create;
mod delete;
mod discovery;
mod errors;
mod gc;
mod kinds;
mod kinds_workloads;
mod kubectl;
mod kubectl_changes;
mod patch;
mod read;
mod review;
mod schema;
mod schema_rules;
mod strategic;
mod update;
mod watch;

pub(crate) const CM: &str = "/api/v1/namespaces/{ns}/configmaps";
pub(crate) const SECRETS: &str = "/api/v1/namespaces/{ns}/secrets";
pub(crate) const PODS: &str = "/api/v1/namespaces/{ns}/pods";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    [
        apply::cases(),
        apply_shapes::cases(),
        chain::cases(),
        crd::cases(),
        crd_refused::cases(),
        create::cases(),
        delete::cases(),
        discovery::cases(),
        errors::cases(),
        gc::cases(),
        kinds::cases(),
        kinds_workloads::cases(),
        kubectl::cases(),
        kubectl_changes::cases(),
        patch::cases(),
        read::cases(),
        review::cases(),
        schema::cases(),
        schema_rules::cases(),
        strategic::cases(),
        update::cases(),
        watch::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A `ConfigMap` with one entry.
pub(crate) fn cm(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "v" } })
}

/// A `ConfigMap` with labels.
pub(crate) fn labelled(name: &str, labels: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": labels } })
}

/// A Pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i" }] } })
}

/// A Deployment of pods with one container.
pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
            },
        },
    })
}

/// A custom resource of the case, from its other fields.
pub(crate) fn w(mut object: Value) -> Value {
    object["apiVersion"] = json!("{id}.example.com/v1");
    object["kind"] = json!("Widget");
    object
}

/// What a `ReplicaSet` without pods is besides its name.
pub(crate) fn no_replicas() -> Value {
    json!({ "spec": deployment("last", 0)["spec"] })
}

/// Waits until the garbage collector has seen what a collection has: it deletes an object without an owner that came last.
pub(crate) async fn collected(c: &Context, collection: &str, mut object: Value) -> Outcome {
    let nobody = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "22222222-2222-4222-8222-222222222222" });
    object["metadata"] = json!({ "name": "last", "ownerReferences": [nobody] });
    c.create(collection, object).await?;
    c.wait_until_deleted(&format!("{collection}/last")).await
}
