//! CRDs are deleted or changed while their objects exist.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::{harness::SandboxHarness, lifecycle::namespace_with_cart, test_namespace::GROUP};

#[tokio::test]
async fn a_sandbox_goes_although_the_kind_of_its_local_workloads_is_gone() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let kinds: Api<CustomResourceDefinition> = Api::all(world.client());
    let delete = async |plural: &str| {
        let name = format!("{plural}.{GROUP}");
        kinds.delete(&name, &DeleteParams::default()).await.unwrap();
        shop.wait_for("the kind is gone", async || kinds.get_opt(&name).await.unwrap().is_none()).await;
    };
    delete("localworkloads").await;
    // It waits for the Sandboxes, which are deleted with it.
    delete("sandboxes").await;
    for kind in ["Deployment", "Service"] {
        assert!(shop.list(kind, &format!("{GROUP}/fork")).await.is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn a_sandbox_that_nobody_can_read_goes_all_the_same() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    // Another release of the kind took what ours does not.
    let kinds: Api<CustomResourceDefinition> = Api::all(world.client());
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch =
        json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": anything}]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).unwrap());
    kinds.patch(&format!("sandboxes.{GROUP}"), &PatchParams::default(), &patch).await.unwrap();
    shop.wait_for("it is taken", async || {
        shop.merge_patch("Sandbox", "pr-1", json!({"spec": {"forks": "of another release"}})).await.is_ok()
    })
    .await;
    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    for kind in ["Deployment", "Service"] {
        assert!(shop.list(kind, &format!("{GROUP}/fork")).await.is_empty(), "{kind}");
    }
}
