//! An API server with the CRDs of sandboxes.

use embedded_kube::cluster::EmbeddedKube;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::Value;

/// A server that knows our kinds.
pub(crate) async fn start() -> EmbeddedKube {
    let kube = EmbeddedKube::builder().in_memory().start().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(kube.client());
    for crd in capt_kinds::sandbox::crds() {
        let name = crd.metadata.name.clone().unwrap();
        crds.patch(&name, &PatchParams::apply("test"), &Patch::Apply(&crd)).await.unwrap();
        await_condition(crds.clone(), &name, is_crd_established()).await.unwrap();
    }
    kube
}

/// The objects of a kind in the default namespace, as a user without our types sees them.
pub(crate) fn api(kube: &EmbeddedKube, kind: &str) -> Api<DynamicObject> {
    let plural = match kind {
        "Sandbox" => "sandboxes",
        "RouteGroup" => "routegroups",
        _ => "localworkloads",
    };
    let resource = ApiResource {
        group: "sandbox.capt.x-k8s.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "sandbox.capt.x-k8s.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::namespaced_with(kube.client(), "default", &resource)
}

/// Everything that was asked is kept; defaults may be there too.
pub(crate) fn assert_kept(asked: &Value, kept: &Value) {
    match (asked, kept) {
        (Value::Object(asked), Value::Object(_)) => {
            for (name, value) in asked {
                assert_kept(value, &kept[name]);
            }
        }
        (Value::Array(asked), Value::Array(kept)) => {
            assert_eq!(asked.len(), kept.len());
            asked.iter().zip(kept).for_each(|(asked, kept)| assert_kept(asked, kept));
        }
        (asked, kept) => assert_eq!(asked, kept),
    }
}
