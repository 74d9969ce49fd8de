//! The Cluster kind: whose it is, and in which version it is read.

use anyhow::bail;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::settings::Standalone;
use crate::{api::names, k8s::Kube};

const CRD: &str = "clusters.cluster.x-k8s.io";

/// What is known of the Cluster kind.
#[derive(Debug, Clone)]
pub(super) struct ClusterKind {
    /// The version that it is read in.
    pub(super) version: String,
    /// Whether we play the part of Cluster API's core.
    pub(super) standalone: bool,
}

/// Asks the API server.
pub(super) async fn find(kube: &Kube, wanted: Standalone) -> anyhow::Result<ClusterKind> {
    let found: Option<CustomResourceDefinition> = kube.get(None, CRD).await?;
    let Some(found) = found else {
        bail!(
            "the Cluster kind is not installed; install Cluster API, or the one that comes with capt \
             (`capt crds --standalone | kubectl apply --server-side -f -`)"
        );
    };
    let ours = found.metadata.labels.iter().flatten().any(|(name, _)| name == names::STANDALONE_LABEL);
    let standalone = match wanted {
        Standalone::Auto => ours,
        Standalone::On => true,
        Standalone::Off => false,
    };
    Ok(ClusterKind { version: version(&found), standalone })
}

/// The newest version that is served; the contract is the same in all of them, as far as we read it.
fn version(found: &CustomResourceDefinition) -> String {
    let served = found.spec.versions.iter().filter(|it| it.served).map(|it| it.name.as_str());
    let known = ["v1beta2", "v1beta1"];
    let served: Vec<&str> = served.collect();
    let best = known.into_iter().find(|it| served.contains(it)).or_else(|| served.last().copied());
    best.unwrap_or("v1beta2").to_owned()
}
