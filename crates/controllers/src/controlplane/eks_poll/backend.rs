//! Trait over AWS and workload API servers, so that tests can replace them.

use std::{sync::Arc, time::Duration};

use capt_engine::aws::{
    EksApi, EksClient, EksToken, EksTokenError, Principal, SdkConfigCache, create_eks_token,
};
use capt_util::error_chain::root_cause;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Timeout of an API server probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Access to EKS, tokens and API servers.
pub trait EksBackend: Send + Sync {
    /// An EKS client for a principal and a region.
    fn eks_client<'a>(&'a self, principal: &'a Principal, region: &'a str) -> BoxFuture<'a, Arc<dyn EksApi>>;

    /// Issues a token for the API server of a cluster.
    fn issue_token<'a>(
        &'a self,
        principal: &'a Principal,
        region: &'a str,
        cluster: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<EksToken, EksTokenError>>;

    /// Probes the API server of a kubeconfig; the error says why it is not reachable.
    fn probe_api_server<'a>(&'a self, kubeconfig: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// AWS, real or local.
#[derive(Debug, Clone)]
pub struct AwsBackend(Arc<SdkConfigCache>);

impl AwsBackend {
    /// Uses these sessions.
    pub const fn new(sessions: Arc<SdkConfigCache>) -> Self {
        Self(sessions)
    }
}

impl EksBackend for AwsBackend {
    fn eks_client<'a>(&'a self, principal: &'a Principal, region: &'a str) -> BoxFuture<'a, Arc<dyn EksApi>> {
        Box::pin(async move {
            let sdk = self.0.sdk_config(principal, Some(region)).await;
            Arc::new(EksClient::new(&sdk)) as Arc<dyn EksApi>
        })
    }

    fn issue_token<'a>(
        &'a self,
        principal: &'a Principal,
        region: &'a str,
        cluster: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<EksToken, EksTokenError>> {
        Box::pin(async move {
            let sdk = self.0.sdk_config(principal, Some(region)).await;
            create_eks_token(&sdk, region, cluster, now).await
        })
    }

    fn probe_api_server<'a>(&'a self, kubeconfig: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            match tokio::time::timeout(PROBE_TIMEOUT, probe(kubeconfig)).await {
                Ok(answer) => answer,
                Err(_late) => Err(format!("no response within {} s", PROBE_TIMEOUT.as_secs())),
            }
        })
    }
}

/// Connects with the kubeconfig exactly as a client does that reads it from the Secret.
async fn probe(kubeconfig: &str) -> Result<(), String> {
    let parsed = Kubeconfig::from_yaml(kubeconfig).map_err(|error| root_cause(&error))?;
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(parsed, &options).await.map_err(|error| root_cause(&error))?;
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| root_cause(&error))?;
    client.apiserver_version().await.map(|_| ()).map_err(|error| root_cause(&error))
}
