//! Objects that every cluster has from the start. What is there already is left as it is.

use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    auth::{self, roles},
    failure::{Answer, Failure},
    object::{Meta, text},
    request::{Options, Request, Verb},
    verbs::Server,
};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates what is missing.
pub async fn bootstrap(server: &Server) -> Answer<()> {
    let namespaces = NAMESPACES
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
    create_all(server, namespaces).await?;
    let others = roles::cluster_roles()
        .into_iter()
        .chain(roles::cluster_role_bindings())
        .chain(std::iter::once(service()));
    create_all(server, others).await
}

/// The Service by which Pods would reach this server.
fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }],
            "sessionAffinity": "None", "type": "ClusterIP", "ipFamilyPolicy": "SingleStack",
        },
    })
}

/// All at once, so that they share a commit.
async fn create_all(server: &Server, objects: impl Iterator<Item = Value>) -> Answer<()> {
    let created = join_all(objects.map(|object| create(server, object))).await;
    created.into_iter().collect()
}

async fn create(server: &Server, object: Value) -> Answer<()> {
    let version = text(&object, &["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let Some(resource) = server.registry().find_kind(group, version, text(&object, &["kind"])) else {
        return Ok(());
    };
    let key = format!("{}/{}/{}", resource.storage, object.namespace(), object.name());
    if server.store().get(&key).is_some() {
        return Ok(());
    }
    let request = Request {
        user: auth::admin(),
        agent: "kube-apiserver".to_owned(),
        verb: Verb::Create,
        resource,
        namespace: object.namespace().to_owned(),
        name: String::new(),
        subresource: String::new(),
        options: Options::default(),
        body: Bytes::from(serde_json::to_vec(&object).map_err(Failure::internal)?),
        content_type: "application/json".to_owned(),
        create_refused: None,
    };
    match server.handle(request).await {
        Err(failure) if failure.reason() != "AlreadyExists" => Err(failure),
        _ => Ok(()),
    }
}
