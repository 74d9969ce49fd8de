use std::time::Duration;

use capt_kinds::api::crds;
use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::ResourceExt;

use super::{PATIENCE, World};
use crate::k8s::{KubeClient, KubeconfigSource, connect};

const CLUSTER: &str = include_str!("../../../../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

#[tokio::test]
async fn kinds_are_waited_for_and_those_that_never_come_are_named() {
    let world = World::start().await;
    let ours: Vec<String> = crds().iter().map(ResourceExt::name_any).collect();
    let mut names: Vec<&str> = ours.iter().map(String::as_str).collect();
    let missing = world.kube.wait_for_crds(&names, Duration::ZERO).await.unwrap();
    assert_eq!(missing, ours);

    world.server.request_log().clear();
    let later = async {
        // A waiter exists already.
        world.until(async || (!world.server.request_log().all().is_empty()).then_some(())).await;
        world.kube.install_crds(&crds()).await.unwrap();
    };
    let (missing, ()) = tokio::join!(world.kube.wait_for_crds(&names, PATIENCE), later);
    assert_eq!(missing.unwrap(), Vec::<String>::new());

    names.insert(2, "widgets.example.com");
    let missing = world.kube.wait_for_crds(&names, Duration::from_millis(300)).await.unwrap();
    assert_eq!(missing, ["widgets.example.com"]);

    let before: CustomResourceDefinition = world.kube.get(None, &ours[0]).await.unwrap().unwrap();
    world.kube.install_crds(&crds()).await.unwrap();
    let after: CustomResourceDefinition = world.kube.get(None, &ours[0]).await.unwrap().unwrap();
    assert_eq!(before.resource_version(), after.resource_version(), "the same kind again changes nothing");
}

#[tokio::test]
async fn our_own_cluster_kind_is_not_cluster_api() {
    let world = World::start().await;
    assert!(!world.kube.has_cluster_api_core().await.unwrap());
    let mut crd: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER).unwrap();
    let made = world.kube.create(&crd).await.unwrap();
    assert!(!world.kube.has_cluster_api_core().await.unwrap());

    world.kube.delete(&made, crate::k8s::DeletionPropagation::Background).await.unwrap();
    crd.metadata.labels = None;
    world.until(async || world.kube.create(&crd).await.ok()).await;
    assert!(world.kube.has_cluster_api_core().await.unwrap());
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_cluster_and_we_name_ourselves() {
    let data = tempfile::tempdir().unwrap();
    let server =
        EmbeddedKube::builder().data(data.path()).listen(ListenConfig::loopback()).start().await.unwrap();
    let kubeconfig = server.kubeconfig_path().map(std::path::Path::to_path_buf);
    let place = KubeconfigSource { kubeconfig: kubeconfig.clone(), context: None };
    let kube = KubeClient::new(connect(&place).await.unwrap());
    assert!(kube.get::<Namespace>(None, "default").await.unwrap().is_some());
    let agent = concat!("capt/", env!("CARGO_PKG_VERSION"));
    assert_eq!(server.request_log().matching(|entry| entry.agent == agent).len(), 1);

    let nowhere = KubeconfigSource { kubeconfig, context: Some("nowhere".to_owned()) };
    let error = connect(&nowhere).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("check --kubeconfig and --context"), "{error}");
    let absent = KubeconfigSource { kubeconfig: Some(data.path().join("absent")), context: None };
    assert_eq!(connect(&absent).await.map(drop).unwrap_err().category(), "Kubeconfig");
    server.stop().await;
}
