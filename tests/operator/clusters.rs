//! Whole clusters: Cluster, `CAPTCluster` and `CAPTControlPlane` in, a VPC, an EKS cluster and Fargate profiles out.

use capt::api::{CaptCluster, CaptControlPlane, Phase, WorkspaceTemplateApply};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    cloud::{LONG, LocalAws},
    stage::{Stage, condition},
};

pub(crate) fn objects(name: &str, profiles: &Value) -> Value {
    json!([
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
         "metadata": {"name": name, "namespace": "default"},
         "spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CAPTCluster", "name": name},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": name}}},
        {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
         "metadata": {"name": name, "namespace": "default"},
         "spec": {"region": "eu-central-1",
                  "vpcConfig": {"cidr": "10.30.0.0/16", "availabilityZoneCount": 2, "natGateways": "None"}}},
        {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
         "metadata": {"name": name, "namespace": "default"},
         "spec": {"version": "v1.32.0", "additionalFargateProfiles": profiles}},
    ])
}

pub(crate) fn profile(name: &str, namespace: &str) -> Value {
    json!({"name": name, "selectors": [{"namespace": namespace}]})
}

pub(crate) async fn apply(stage: &Stage, objects: &Value) {
    for object in objects.as_array().unwrap() {
        stage.apply_value(object.clone()).await;
    }
}

fn is_ready(object: &CaptControlPlane) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let current = status.observed_generation == object.metadata.generation;
    current && condition(&status.conditions, "Ready", "True") && status.phase == Some(Phase::Ready)
}

fn all_profiles_ready(object: &CaptControlPlane) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let wanted = object.spec.additional_fargate_profiles.len();
    let named = |name: &str| object.spec.additional_fargate_profiles.iter().any(|it| it.name == name);
    let ready = status.fargate_profile_statuses.iter().filter(|it| it.ready && named(&it.name)).count();
    is_ready(object) && ready == wanted && status.fargate_profile_statuses.iter().all(|it| named(&it.name))
}

pub(crate) async fn change(stage: &Stage, name: &str, spec: Value) {
    let api = stage.api::<CaptControlPlane>("default");
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
}

pub(crate) async fn ready(stage: &Stage, name: &str) -> CaptControlPlane {
    stage.until(name, LONG, "ready with all its profiles", all_profiles_ready).await
}

/// A Kubernetes client with the kubeconfig that was handed out.
async fn handed_out(stage: &Stage, cluster: &str) -> kube::Client {
    let secret = stage.api::<Secret>("default").get(&format!("{cluster}-kubeconfig")).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], cluster);
    let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    assert!(!text.contains("exec:"), "no command is needed to use it");
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
        .await
        .unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_lives_its_whole_life() {
    let aws = LocalAws::start();
    let empty = aws.inventory().await;
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;

    // Create.
    apply(&stage, &objects("demo", &json!([profile("apps", "apps")]))).await;
    let made = ready(&stage, "demo").await;
    let network = stage.api::<CaptCluster>("default").get("demo").await.unwrap();
    let network = network.status.unwrap();
    assert_eq!(network.ready, Some(true));
    assert_eq!(network.initialization.unwrap().provisioned, Some(true));
    assert_eq!(network.failure_domains.len(), 2, "{:?}", network.failure_domains);
    let endpoint = made.spec.control_plane_endpoint.clone().unwrap();
    assert!(!endpoint.host.contains("://") && endpoint.port > 0, "{endpoint:?}");
    assert_eq!(network.endpoint.as_deref(), Some(endpoint.host.as_str()));
    let client = handed_out(&stage, "demo").await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    assert!(!namespaces.list(&ListParams::default()).await.unwrap().items.is_empty(), "the kubeconfig works");

    // Add a profile.
    let two = json!([profile("apps", "apps"), profile("jobs", "jobs")]);
    change(&stage, "demo", json!({ "additionalFargateProfiles": two })).await;
    ready(&stage, "demo").await;
    assert!(aws.profiles().await.iter().any(|it| it.ends_with("jobs")), "{:?}", aws.profiles().await);

    // Change its selectors: another profile takes its place, and only then it goes.
    let other = json!([profile("apps", "apps"), profile("jobs", "batch")]);
    change(&stage, "demo", json!({ "additionalFargateProfiles": other })).await;
    let rotated = |it: &CaptControlPlane| {
        let status = it.status.clone().unwrap_or_default();
        let jobs = status.fargate_profile_statuses.iter().find(|it| it.name == "jobs").cloned();
        all_profiles_ready(it)
            && jobs.and_then(|it| it.profile_name).is_some_and(|name| name.starts_with("jobs-"))
    };
    stage.until("demo", LONG, "rotated", rotated).await;
    let left: Vec<String> = aws.profiles().await.into_iter().filter(|it| it.contains("jobs")).collect();
    assert_eq!(left.len(), 1, "{left:?}");

    // Upgrade by one minor version.
    change(&stage, "demo", json!({ "version": "v1.33.0" })).await;
    let upgraded = |it: &CaptControlPlane| {
        let version = it.status.clone().unwrap_or_default().version;
        is_ready(it) && version.is_some_and(|version| version.trim_start_matches('v').starts_with("1.33"))
    };
    stage.until("demo", LONG, "upgraded", upgraded).await;

    // A profile breaks in EKS, and heals.
    let issue = json!([{"code": "InternalFailure", "message": "out of order", "resourceIds": []}]);
    let broken = json!({"cluster": "demo", "profile": "web", "status": "CREATE_FAILED", "issues": issue, "next": true});
    aws.admin("POST", "eks/profile-state", &broken).await;
    let three = json!([profile("apps", "apps"), profile("jobs", "batch"), profile("web", "web")]);
    change(&stage, "demo", json!({ "additionalFargateProfiles": three })).await;
    let healed = ready(&stage, "demo").await;
    let web =
        healed.status.unwrap().fargate_profile_statuses.into_iter().find(|it| it.name == "web").unwrap();
    assert!(web.ready, "{web:?}");

    // Everything is deleted at once, in no order.
    delete_everything(&stage).await;
    stage.until_gone::<CaptControlPlane>("demo", LONG).await;
    stage.until_gone::<CaptCluster>("demo", LONG).await;
    stage
        .eventually(LONG, "all workspaces are gone", async || {
            stage
                .api::<WorkspaceTemplateApply>("default")
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .is_empty()
        })
        .await;
    assert_eq!(aws.inventory().await, empty, "nothing is left");
    stage.stop().await;
}

/// Every object that we know of, the wrong ones first.
async fn delete_everything(stage: &Stage) {
    let background = DeleteParams::background();
    let workspaces = stage.api::<WorkspaceTemplateApply>("default");
    for it in workspaces.list(&ListParams::default()).await.unwrap() {
        workspaces.delete(&it.name_any(), &background).await.unwrap();
    }
    stage.api::<CaptCluster>("default").delete("demo", &DeleteParams::foreground()).await.unwrap();
    let kind = capt::controllers::common::cluster::resource("v1beta2");
    let clusters: Api<DynamicObject> = Api::namespaced_with(stage.client(), "default", &kind);
    clusters.delete("demo", &background).await.unwrap();
    stage.api::<CaptControlPlane>("default").delete("demo", &background).await.unwrap();
}
