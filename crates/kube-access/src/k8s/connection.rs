//! Connection to a cluster, and the CRDs that it must serve.

use std::{path::PathBuf, time::Duration};

use capt_kinds::api::names::STANDALONE_LABEL;
use http::header::{HeaderValue, USER_AGENT};
use k8s_openapi::{
    api::authentication::v1::SelfSubjectReview,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use tokio::time::{Instant, sleep};

use super::{error::K8sError, kube_client::KubeClient};
use crate::error::ErrorClass;

/// The CRD that indicates Cluster API.
const CLUSTER_CRD: &str = "clusters.cluster.x-k8s.io";
/// Poll interval of CRDs.
const CRD_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Where the client configuration comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeconfigSource {
    /// Kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the in-cluster configuration.
    pub kubeconfig: Option<PathBuf>,
    /// Context; defaults to the current one.
    pub context: Option<String>,
}

/// Connects without kube's own retries: they last for minutes, and a Lease that is renewed late is lost. [`Kube`] retries
/// where it is safe.
pub async fn connect(place: &KubeconfigSource) -> Result<Client, K8sError> {
    build_client(load_config(place).await?).map_err(|source| K8sError::NoCluster { source: source.into() })
}

fn build_client(mut config: Config) -> Result<Client, kube::Error> {
    let agent = concat!("capt/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    config.default_retry = false;
    Client::try_from(config)
}

/// Connects with a kubeconfig from a Secret, which others may have written: only server, CA and token are accepted. A
/// kubeconfig that runs a program or reads a local file is rejected.
pub async fn connect_by_token(text: &str) -> Result<Client, K8sError> {
    let bad = |source: Box<dyn std::error::Error + Send + Sync>| K8sError::Untrusted { source };
    let read = Kubeconfig::from_yaml(text).map_err(|error| bad(error.into()))?;
    let users = read.auth_infos.iter().filter_map(|it| it.auth_info.as_ref());
    let is_plain = |it: &AuthInfo| {
        it.exec.is_none()
            && it.auth_provider.is_none()
            && it.token_file.is_none()
            && it.client_certificate.is_none()
            && it.client_key.is_none()
    };
    let clusters = read.clusters.iter().filter_map(|it| it.cluster.as_ref());
    if !users.into_iter().all(is_plain) || clusters.into_iter().any(|it| it.certificate_authority.is_some()) {
        return Err(bad("it refers to a program or a file; only a token is accepted from a Secret".into()));
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await.map_err(|error| bad(error.into()))?;
    build_client(config).map_err(|error| bad(error.into()))
}

async fn load_config(place: &KubeconfigSource) -> Result<Config, K8sError> {
    let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    let missing = |source| K8sError::NoCluster { source };
    match (&place.kubeconfig, &place.context) {
        (Some(path), _) => {
            let bad = |source: Box<_>| K8sError::Kubeconfig { path: path.clone(), source };
            let read = Kubeconfig::read_from(path).map_err(|error| bad(error.into()))?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(|error| bad(error.into()))
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| missing(error.into())),
        (None, None) => Config::infer().await.map_err(|error| missing(error.into())),
    }
}

impl KubeClient {
    /// Waits until the CRDs (`widgets.example.com`) are established; returns those that are not when the time is over.
    pub async fn wait_for_crds(&self, crds: &[&str], patience: Duration) -> Result<Vec<String>, K8sError> {
        let end = Instant::now() + patience;
        let mut missing: Vec<String> = crds.iter().map(|&name| name.to_owned()).collect();
        loop {
            let result = self.retain_unestablished(&mut missing).await;
            let is_late = Instant::now() >= end;
            match result {
                Ok(()) if missing.is_empty() || is_late => return Ok(missing),
                // Transient errors are normal while the server starts.
                Err(error) if error.class() != ErrorClass::Transient || is_late => return Err(error),
                Ok(()) | Err(_) => sleep(CRD_POLL_INTERVAL).await,
            }
        }
    }

    async fn retain_unestablished(&self, names: &mut Vec<String>) -> Result<(), K8sError> {
        let mut missing = Vec::new();
        for name in names.drain(..) {
            let found: Option<CustomResourceDefinition> = self.get(None, &name).await?;
            if !found.is_some_and(|crd| is_established(&crd)) {
                missing.push(name);
            }
        }
        *names = missing;
        Ok(())
    }

    /// Whether Cluster API is installed: the Cluster CRD exists and is not capt's standalone one.
    pub async fn has_cluster_api_core(&self) -> Result<bool, K8sError> {
        let found = self.get_metadata::<CustomResourceDefinition>(None, CLUSTER_CRD).await?;
        Ok(found.is_some_and(|meta| {
            meta.labels.as_ref().is_none_or(|labels| !labels.contains_key(STANDALONE_LABEL))
        }))
    }

    /// The authenticated user; `None` if the server does not support `SelfSubjectReview`.
    pub async fn whoami(&self) -> Result<Option<String>, K8sError> {
        match self.create(&SelfSubjectReview::default()).await {
            Ok(review) => Ok(review.status.and_then(|it| it.user_info).and_then(|it| it.username)),
            // SelfSubjectReview v1 needs Kubernetes 1.28.
            Err(K8sError::NoKind { .. } | K8sError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Installs or updates CRDs.
    pub async fn install_crds(&self, crds: &[CustomResourceDefinition]) -> Result<(), K8sError> {
        for crd in crds {
            self.apply(crd).await?;
        }
        Ok(())
    }
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Established" && one.status == "True")
}
