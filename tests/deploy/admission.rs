//! The manifests before an API server: taken without an unknown field, and the rights that they give enforced.

use std::collections::BTreeSet;

use embedded_kube::{cluster::EmbeddedKube, fault_injection::RequestRecord, request::User};
use http::Request;
use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    },
    core::v1::{Pod, Secret},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    overlays::{OVERLAYS, name, of_kind, rendered_overlay, title},
    rbac::{AccessRequest, collect_grants, compare},
};

async fn start_server() -> EmbeddedKube {
    EmbeddedKube::builder().in_memory().start().await.unwrap()
}

/// The path of an object, and whether the server has its kind.
fn resource_path(object: &Value) -> Option<String> {
    let plural = match object["kind"].as_str().unwrap() {
        "CustomResourceDefinition" => "customresourcedefinitions",
        "Namespace" => "namespaces",
        "ServiceAccount" => "serviceaccounts",
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        "Service" => "services",
        "Deployment" => "deployments",
        // Judged by their types below.
        "NetworkPolicy"
        | "PodDisruptionBudget"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "ValidatingWebhookConfiguration" => return None,
        other => panic!("say where {other} is"),
    };
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let meta = &object["metadata"];
    let namespace = meta["namespace"].as_str().map(|it| format!("/namespaces/{it}")).unwrap_or_default();
    Some(format!("{root}{namespace}/{plural}/{}", meta["name"].as_str().unwrap()))
}

/// Applies the objects as `kubectl apply --server-side` does, strictly.
async fn apply(client: &Client, objects: &[Value]) {
    for object in objects {
        let Some(path) = resource_path(object) else { continue };
        let request = Request::patch(format!("{path}?fieldManager=kubectl&fieldValidation=Strict"))
            .header("Content-Type", "application/apply-patch+yaml")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        let answer: Result<Value, _> = client.request(request).await;
        answer.unwrap_or_else(|error| panic!("{}: {error}", title(object)));
    }
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in of_kind(objects, "CustomResourceDefinition") {
        await_condition(crds.clone(), name(crd), is_crd_established()).await.unwrap();
    }
}

#[tokio::test]
async fn every_object_is_taken_without_an_unknown_field() {
    for overlay in OVERLAYS {
        let kube = start_server().await;
        apply(&kube.client(), &rendered_overlay(overlay)).await;
    }
}

#[test]
fn kinds_that_the_server_lacks_have_no_unknown_field_either() {
    fn check<T: DeserializeOwned + Serialize>(object: &Value) {
        let typed: T = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(
            serde_json::to_value(typed).unwrap(),
            *object,
            "a field was lost, or is written otherwise"
        );
    }
    let mut seen = 0;
    for object in
        OVERLAYS.iter().flat_map(|overlay| rendered_overlay(overlay)).filter(|it| resource_path(it).is_none())
    {
        seen += 1;
        match object["kind"].as_str().unwrap() {
            "NetworkPolicy" => check::<NetworkPolicy>(&object),
            "PodDisruptionBudget" => check::<PodDisruptionBudget>(&object),
            "ValidatingAdmissionPolicy" => check::<ValidatingAdmissionPolicy>(&object),
            "ValidatingAdmissionPolicyBinding" => check::<ValidatingAdmissionPolicyBinding>(&object),
            _ => check::<ValidatingWebhookConfiguration>(&object),
        }
    }
    assert!(seen > 0);
}

const USER: &str = "system:serviceaccount:capt-system:capt";

/// The operator's client, with the rights of its account and no others.
fn operator_client(kube: &EmbeddedKube) -> Client {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:capt-system", "system:authenticated"];
    kube.client_as(User {
        name: USER.to_owned(),
        groups: groups.map(str::to_owned).to_vec(),
        ..User::default()
    })
}

#[track_caller]
fn assert_forbidden<T: std::fmt::Debug>(answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{status:?}"),
        other => panic!("not refused: {other:?}"),
    }
}

fn clusters_api(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind))
}

/// A server with the rights of the base, the Cluster kind as Cluster API would bring it, and one Cluster.
async fn server_with_base_roles() -> EmbeddedKube {
    let kube = start_server().await;
    let standalone =
        rendered_overlay("standalone").into_iter().filter(|it| it["kind"] == "CustomResourceDefinition");
    apply(&kube.client(), &standalone.collect::<Vec<_>>()).await;
    apply(&kube.client(), &rendered_overlay("base")).await;
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": { "name": "demo" }, "spec": { "paused": true },
    });
    let cluster = serde_json::from_value(cluster).unwrap();
    clusters_api(&kube.client()).create(&PostParams::default(), &cluster).await.unwrap();
    kube
}

#[tokio::test]
async fn the_account_of_the_pod_can_do_its_work_and_not_more() {
    let kube = server_with_base_roles().await;
    let us = operator_client(&kube);
    let secrets: Api<Secret> = Api::namespaced(us.clone(), "default");
    let mut secret = Secret::default();
    secret.metadata.name = Some("state".to_owned());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    secrets.delete("state", &DeleteParams::default()).await.unwrap();
    let clusters = clusters_api(&us);
    clusters.get("demo").await.unwrap();
    clusters.list(&ListParams::default()).await.unwrap();

    let params = PatchParams::default();
    assert_forbidden(
        clusters.patch("demo", &params, &Patch::Merge(json!({ "spec": { "paused": false } }))).await,
    );
    assert_forbidden(clusters.patch_status("demo", &params, &Patch::Merge(json!({ "status": {} }))).await);
    assert_forbidden(clusters.delete("demo", &DeleteParams::default()).await);
    let pods: Api<Pod> = Api::namespaced(us, "default");
    assert_forbidden(pods.delete("web", &DeleteParams::default()).await);

    assert_rbac_model_agrees(&kube);
}

/// Our own reading of the rules says of every logged request what the server said.
fn assert_rbac_model_agrees(kube: &EmbeddedKube) {
    let log = kube.request_log().matching(|it| it.user == USER);
    let (refused, done): (Vec<_>, Vec<_>) = log.iter().partition(|it| it.code == 403);
    assert!(refused.len() >= 4 && done.len() >= 4, "{log:?}");
    let asked = |logged: &[&RequestRecord]| {
        logged.iter().filter_map(|it| AccessRequest::from_logged(it)).collect::<BTreeSet<_>>()
    };
    let grants = collect_grants(&rendered_overlay("base"), "capt-system", "capt");
    assert_eq!(compare(&grants, &asked(&done)).refused, BTreeSet::new());
    assert_eq!(compare(&grants, &asked(&refused)).refused.len(), asked(&refused).len());
}
