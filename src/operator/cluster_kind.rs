//! Detection of the Cluster CRD: who provides it, and the version to read.

use anyhow::bail;
use capt_kinds::api::names;
use capt_kube::k8s::KubeClient;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::settings::StandaloneMode;

const CLUSTER_CRD: &str = "clusters.cluster.x-k8s.io";

/// The detected Cluster kind.
#[derive(Debug, Clone)]
pub(super) struct ClusterKind {
    /// The API version to read.
    pub(super) version: String,
    /// Whether capt acts as the Cluster API core controller.
    pub(super) standalone: bool,
}

/// Reads the CRD from the API server.
pub(super) async fn detect(kube: &KubeClient, wanted: StandaloneMode) -> anyhow::Result<ClusterKind> {
    let found: Option<CustomResourceDefinition> = kube.get(None, CLUSTER_CRD).await?;
    let Some(found) = found else {
        bail!(
            "the Cluster CRD is not installed; install Cluster API, or the standalone CRD of capt \
             (`capt crds --standalone | kubectl apply --server-side -f -`)"
        );
    };
    let ours = found.metadata.labels.iter().flatten().any(|(name, _)| name == names::STANDALONE_LABEL);
    let standalone = match wanted {
        StandaloneMode::Auto => ours,
        StandaloneMode::On => true,
        StandaloneMode::Off => false,
    };
    Ok(ClusterKind { version: served_version(&found), standalone })
}

/// The newest known version that is served; the fields that capt reads are the same in all of them.
fn served_version(found: &CustomResourceDefinition) -> String {
    let served = found.spec.versions.iter().filter(|it| it.served).map(|it| it.name.as_str());
    let known = ["v1beta2", "v1beta1"];
    let served: Vec<&str> = served.collect();
    let best = known.into_iter().find(|it| served.contains(it)).or_else(|| served.last().copied());
    best.unwrap_or("v1beta2").to_owned()
}
