//! A whole cluster in the local AWS.

use capt_kinds::api::CaptControlPlane;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{case_namespace::CaseNamespace, fake_capi_core};

/// A small one, with a profile of its own.
pub(crate) fn cluster_objects(name: &str) -> Value {
    json!([
        fake_capi_core::cluster(name),
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster", "metadata": {"name": name},
            "spec": {
                "region": "eu-central-1",
                "vpcConfig": {"cidr": "10.30.0.0/16", "availabilityZoneCount": 2, "natGateways": "None"},
            },
        },
        {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
            "metadata": {"name": name},
            "spec": {
                "version": "v1.32.0",
                "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}],
            },
        },
    ])
}

/// Name, type, label, owner and key as Cluster API wants them, and it works without a command.
pub(crate) async fn check_kubeconfig_secret(place: &CaseNamespace, control_plane: &CaptControlPlane) {
    let cluster = control_plane.name_any();
    let secret = place.api::<Secret>().get(&format!("{cluster}-kubeconfig")).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], cluster);
    let owners: Vec<_> = secret
        .owner_references()
        .iter()
        .map(|it| (it.api_version.as_str(), it.kind.as_str(), &it.uid))
        .collect();
    let uid = control_plane.uid().unwrap();
    assert_eq!(owners, [("controlplane.cluster.x-k8s.io/v1beta1", "CAPTControlPlane", &uid)]);
    let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    assert!(!text.contains("exec:"), "no command is needed to use it");
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    assert!(!namespaces.list(&ListParams::default()).await.unwrap().items.is_empty(), "it works");
}
