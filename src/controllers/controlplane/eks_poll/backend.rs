//! The world, behind a small trait: EKS, tokens, API servers of clusters.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::aws::{AskEks, Eks, Principal, Sessions, Token, TokenError, eks_token};

/// How long an API server may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// The world, or a test.
pub trait Cloud: Send + Sync {
    /// EKS of a region, as seen by somebody.
    fn eks<'a>(&'a self, principal: &'a Principal, region: &'a str) -> BoxFuture<'a, Arc<dyn AskEks>>;

    /// A token for the API of a cluster.
    fn token<'a>(
        &'a self,
        principal: &'a Principal,
        region: &'a str,
        cluster: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Token, TokenError>>;

    /// Whether the API server that a kubeconfig leads to answers; else why not.
    fn call<'a>(&'a self, kubeconfig: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// AWS, real or local.
#[derive(Debug, Clone)]
pub struct Aws(Arc<Sessions>);

impl Aws {
    /// With the sessions of all who act.
    pub const fn new(sessions: Arc<Sessions>) -> Self {
        Self(sessions)
    }
}

impl Cloud for Aws {
    fn eks<'a>(&'a self, principal: &'a Principal, region: &'a str) -> BoxFuture<'a, Arc<dyn AskEks>> {
        Box::pin(async move {
            let sdk = self.0.sdk(principal, Some(region)).await;
            Arc::new(Eks::new(&sdk)) as Arc<dyn AskEks>
        })
    }

    fn token<'a>(
        &'a self,
        principal: &'a Principal,
        region: &'a str,
        cluster: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Token, TokenError>> {
        Box::pin(async move {
            let sdk = self.0.sdk(principal, Some(region)).await;
            eks_token(&sdk, region, cluster, now).await
        })
    }

    fn call<'a>(&'a self, kubeconfig: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            match tokio::time::timeout(DEADLINE, answers(kubeconfig)).await {
                Ok(answer) => answer,
                Err(_late) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
            }
        })
    }
}

/// Goes the way that everybody goes who is given the kubeconfig.
async fn answers(kubeconfig: &str) -> Result<(), String> {
    let parsed = Kubeconfig::from_yaml(kubeconfig).map_err(|error| innermost(&error))?;
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(parsed, &options).await.map_err(|error| innermost(&error))?;
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| innermost(&error))?;
    client.apiserver_version().await.map(|_| ()).map_err(|error| innermost(&error))
}

/// What went wrong at the bottom, in one line.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let text = chain.last().map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
