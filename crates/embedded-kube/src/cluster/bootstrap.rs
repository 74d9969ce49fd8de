//! Objects that every cluster has. Existing objects are not modified.

use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    auth::{self, bootstrap_policy},
    handlers::RequestHandler,
    object::{MetaAccessor, str_at},
    request::{Request, RequestOptions, Verb},
    status_error::{ApiResult, StatusError},
};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the missing objects.
pub async fn bootstrap(server: &RequestHandler) -> ApiResult<()> {
    let namespaces = NAMESPACES
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
    create_all(server, namespaces).await?;
    let others = bootstrap_policy::cluster_roles()
        .into_iter()
        .chain(bootstrap_policy::cluster_role_bindings())
        .chain(std::iter::once(kubernetes_service()));
    create_all(server, others).await
}

/// The Service at which Pods reach the API server.
fn kubernetes_service() -> Value {
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

/// Creates all objects concurrently, so that they share a commit.
async fn create_all(server: &RequestHandler, objects: impl Iterator<Item = Value>) -> ApiResult<()> {
    let created = join_all(objects.map(|object| create(server, object))).await;
    created.into_iter().collect()
}

async fn create(server: &RequestHandler, object: Value) -> ApiResult<()> {
    let version = str_at(&object, &["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let Some(resource) = server.registry().find_kind(group, version, str_at(&object, &["kind"])) else {
        return Ok(());
    };
    let key = format!("{}/{}/{}", resource.storage_prefix, object.namespace(), object.name());
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
        options: RequestOptions::default(),
        body: Bytes::from(serde_json::to_vec(&object).map_err(StatusError::internal)?),
        content_type: "application/json".to_owned(),
        create_denied: None,
    };
    match server.handle(request).await {
        Err(failure) if failure.reason() != "AlreadyExists" => Err(failure),
        _ => Ok(()),
    }
}
