//! The embedded Kubernetes API of a data directory.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use embedded_kube::cluster::{EmbeddedKube, ListenConfig, StartError};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use terraform_driver::workspace::files::{FileError, create_private_dir, read_json, write_json};
use thiserror::Error;

/// The Cluster CRD for installations without Cluster API.
const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// Why the embedded API could not start.
#[derive(Debug, Error)]
pub enum EmbeddedApiError {
    /// It did not start.
    #[error("cannot start the Kubernetes API")]
    Start(#[source] StartError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The embedded Cluster CRD does not parse.
    #[error("internal error: cannot parse the embedded Cluster CRD")]
    Definition(#[source] serde_saphyr::Error),
    /// The Cluster CRD was rejected.
    #[error("cannot install the Cluster CRD")]
    Install(#[source] kube::Error),
}

/// The last listen address, so that kubeconfigs stay valid across restarts.
#[derive(Debug, Serialize, Deserialize)]
struct LastAddress {
    address: SocketAddr,
}

/// The directory of the embedded API in a data directory.
pub fn api_dir(data: &Path) -> PathBuf {
    data.join("kube")
}

/// Starts it at `listen` or at its previous address. `bare` skips the Cluster CRD.
pub async fn start_api(
    dir: &Path,
    listen: Option<SocketAddr>,
    bare: bool,
) -> Result<EmbeddedKube, EmbeddedApiError> {
    create_private_dir(dir)?;
    let record = dir.join("listen.json");
    let last = read_json::<LastAddress>(&record)?.map(|last| last.address);
    let kube = match listen.or(last) {
        Some(address) => match start_at(dir, ListenConfig::at(address)).await {
            // The previous port is in use; pick another one unless the user asked for this one.
            Err(StartError::Listen { .. }) if listen.is_none() => {
                start_at(dir, ListenConfig::loopback()).await
            }
            other => other,
        },
        None => start_at(dir, ListenConfig::loopback()).await,
    }
    .map_err(EmbeddedApiError::Start)?;
    if let Some(address) = kube.address() {
        write_json(&record, &LastAddress { address })?;
    }
    if !bare {
        install_cluster_kind(&kube).await?;
    }
    Ok(kube)
}

async fn start_at(dir: &Path, listen: ListenConfig) -> Result<EmbeddedKube, StartError> {
    EmbeddedKube::builder().data(dir).listen(listen).request_log(false).start().await
}

/// Leaves a Cluster CRD that Cluster API installed untouched.
async fn install_cluster_kind(kube: &EmbeddedKube) -> Result<(), EmbeddedApiError> {
    let crd: CustomResourceDefinition =
        serde_saphyr::from_str(CLUSTER_CRD).map_err(EmbeddedApiError::Definition)?;
    let name = crd.metadata.name.clone().unwrap_or_default();
    let crds: Api<CustomResourceDefinition> = Api::all(kube.client());
    let ours = |found: &CustomResourceDefinition| {
        found.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("capt.x-k8s.io/standalone"))
    };
    let present = crds.get_opt(&name).await.map_err(EmbeddedApiError::Install)?;
    if present.as_ref().is_some_and(|found| !ours(found)) {
        return Ok(());
    }
    let params = PatchParams::apply("capt").force();
    crds.patch(&name, &params, &Patch::Apply(&crd)).await.map_err(EmbeddedApiError::Install)?;
    Ok(())
}
