//! The way to a cluster, and the kinds that must be there.

use std::{path::PathBuf, time::Duration};

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

use super::{call::Kube, error::K8sError};
use crate::{api::names::STANDALONE_LABEL, error::Class};

/// The kind by which Cluster API is known.
const CLUSTER_CRD: &str = "clusters.cluster.x-k8s.io";
/// How often we look whether kinds are served.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Which cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Where {
    /// A kubeconfig; else KUBECONFIG, the one in the home directory, or the cluster that we run in.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it; else the current one.
    pub context: Option<String>,
}

/// A client for this cluster. It makes no retries of its own: those of kube go on for minutes, and a lease that is
/// renewed late is lost. [`Kube`] has the few that we want.
pub async fn connect(place: &Where) -> Result<Client, K8sError> {
    client(config(place).await?).map_err(|source| K8sError::NoCluster { source: source.into() })
}

fn client(mut config: Config) -> Result<Client, kube::Error> {
    let agent = concat!("capt/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    config.default_retry = false;
    Client::try_from(config)
}

/// A client from a kubeconfig that lies in the cluster, where others can write too: an address, an authority and a token. One
/// that would run a program or read a file of ours is refused.
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
        return Err(bad("it names a program or a file; only a token is taken from a Secret".into()));
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await.map_err(|error| bad(error.into()))?;
    client(config).map_err(|error| bad(error.into()))
}

async fn config(place: &Where) -> Result<Config, K8sError> {
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

impl Kube {
    /// Waits until the API server serves these kinds (`widgets.example.com`), and gives those that it does not serve when
    /// the time is over. None are missing if the answer is empty.
    pub async fn established(&self, crds: &[&str], patience: Duration) -> Result<Vec<String>, K8sError> {
        let end = Instant::now() + patience;
        let mut missing: Vec<String> = crds.iter().map(|&name| name.to_owned()).collect();
        loop {
            let result = self.still_missing(&mut missing).await;
            let is_late = Instant::now() >= end;
            match result {
                Ok(()) if missing.is_empty() || is_late => return Ok(missing),
                // A server that is just coming up has every right to stumble.
                Err(error) if error.class() != Class::Transient || is_late => return Err(error),
                Ok(()) | Err(_) => sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn still_missing(&self, names: &mut Vec<String>) -> Result<(), K8sError> {
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

    /// Whether Cluster API itself is installed: its Cluster kind is there, and it is not the one that we bring.
    pub async fn cluster_api_core_present(&self) -> Result<bool, K8sError> {
        let found = self.get_metadata::<CustomResourceDefinition>(None, CLUSTER_CRD).await?;
        Ok(found.is_some_and(|meta| {
            meta.labels.as_ref().is_none_or(|labels| !labels.contains_key(STANDALONE_LABEL))
        }))
    }

    /// The user that the API server takes us for; nothing if it does not tell.
    pub async fn whoami(&self) -> Result<Option<String>, K8sError> {
        match self.create(&SelfSubjectReview::default()).await {
            Ok(review) => Ok(review.status.and_then(|it| it.user_info).and_then(|it| it.username)),
            // Before 1.28 nobody could ask.
            Err(K8sError::NoKind { .. } | K8sError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Installs kinds, or brings them up to date.
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
