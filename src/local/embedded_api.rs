//! The embedded Kubernetes API of a data directory, as `capt kube` runs it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use embedded_kube::cluster::{EmbeddedKube, Listen, StartError};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use terraform_driver::workspace::files::{FileError, private_dir, read_json, write_json};
use thiserror::Error;

/// The Cluster kind, for places where Cluster API is not.
const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// Why it cannot serve.
#[derive(Debug, Error)]
pub enum KubeError {
    /// It did not start.
    #[error("cannot start the Kubernetes API")]
    Start(#[source] StartError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The Cluster kind is part of this binary and cannot be read.
    #[error("cannot read the Cluster kind that is part of this binary")]
    Definition(#[source] serde_saphyr::Error),
    /// The Cluster kind was refused.
    #[error("cannot install the Cluster kind")]
    Install(#[source] kube::Error),
}

/// Where it listened last, so that a kubeconfig stays right across restarts.
#[derive(Debug, Serialize, Deserialize)]
struct Last {
    address: SocketAddr,
}

/// The directory of the Kubernetes API below a data directory.
pub fn dir(data: &Path) -> PathBuf {
    data.join("kube")
}

/// Starts it where it was before, or at `listen`. `bare` leaves the Cluster kind out.
pub async fn start(dir: &Path, listen: Option<SocketAddr>, bare: bool) -> Result<EmbeddedKube, KubeError> {
    private_dir(dir)?;
    let record = dir.join("listen.json");
    let last = read_json::<Last>(&record)?.map(|last| last.address);
    let kube = match listen.or(last) {
        Some(address) => match begin(dir, Listen::at(address)).await {
            // Somebody else has the old port now; a new one is better than none, but not if it was asked for.
            Err(StartError::Listen { .. }) if listen.is_none() => begin(dir, Listen::loopback()).await,
            other => other,
        },
        None => begin(dir, Listen::loopback()).await,
    }
    .map_err(KubeError::Start)?;
    if let Some(address) = kube.address() {
        write_json(&record, &Last { address })?;
    }
    if !bare {
        install_cluster_kind(&kube).await?;
    }
    Ok(kube)
}

async fn begin(dir: &Path, listen: Listen) -> Result<EmbeddedKube, StartError> {
    EmbeddedKube::builder().data(dir).listen(listen).request_log(false).start().await
}

/// A Cluster kind that somebody else brought (Cluster API itself) is left alone.
async fn install_cluster_kind(kube: &EmbeddedKube) -> Result<(), KubeError> {
    let crd: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD).map_err(KubeError::Definition)?;
    let name = crd.metadata.name.clone().unwrap_or_default();
    let crds: Api<CustomResourceDefinition> = Api::all(kube.client());
    let ours = |found: &CustomResourceDefinition| {
        found.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("capt.x-k8s.io/standalone"))
    };
    let present = crds.get_opt(&name).await.map_err(KubeError::Install)?;
    if present.as_ref().is_some_and(|found| !ours(found)) {
        return Ok(());
    }
    let params = PatchParams::apply("capt").force();
    crds.patch(&name, &params, &Patch::Apply(&crd)).await.map_err(KubeError::Install)?;
    Ok(())
}
