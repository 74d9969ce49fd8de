//! An embedded API server with our CRDs, and strict server-side apply.

use std::{fs, path::PathBuf};

use embedded_kube::cluster::EmbeddedKube;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::Value;

pub(crate) fn repository_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn parse_objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// A server that knows our kinds, and the Cluster as `capt kube` brings it.
pub(crate) async fn start_server() -> EmbeddedKube {
    let kube = EmbeddedKube::builder().in_memory().start().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(kube.client());
    let cluster =
        fs::read_to_string(repository_root().join("crds/standalone/cluster.x-k8s.io_clusters.yaml")).unwrap();
    let cluster: CustomResourceDefinition = serde_saphyr::from_str(&cluster).unwrap();
    for crd in capt_kinds::api::crds().into_iter().chain([cluster]) {
        let name = crd.metadata.name.clone().unwrap();
        crds.patch(&name, &PatchParams::apply("test"), &Patch::Apply(&crd)).await.unwrap();
        // Its objects are taken a moment later.
        await_condition(crds.clone(), &name, is_crd_established()).await.unwrap();
    }
    kube
}

/// Applies an object as `kubectl apply --server-side` does, strictly; what the server keeps.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<Value, kube::Error> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap();
    let plural = match kind.as_str() {
        "WorkspaceTemplateApply" => "workspacetemplateapplies".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: text(&object["apiVersion"]),
        kind,
        plural,
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let params = PatchParams::apply("kubectl").validation_strict();
    let kept =
        api.patch(object["metadata"]["name"].as_str().unwrap(), &params, &Patch::Apply(object)).await?;
    Ok(serde_json::to_value(kept).unwrap())
}

/// Everything of `asked` is in `kept`, which may hold more.
pub(crate) fn is_preserved(asked: &Value, kept: &Value) -> bool {
    match (asked, kept) {
        (Value::Object(asked), Value::Object(kept)) => {
            asked.iter().all(|(name, value)| kept.get(name).is_some_and(|kept| is_preserved(value, kept)))
        }
        (Value::Array(asked), Value::Array(kept)) => {
            asked.len() == kept.len() && asked.iter().zip(kept).all(|(asked, kept)| is_preserved(asked, kept))
        }
        (asked, kept) => asked == kept,
    }
}
