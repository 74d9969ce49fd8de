//! Reads EKS clusters, Fargate profiles, addons and access entries. Changes nothing: that is Terraform's task.
//!
//! Every call has the timeout of the SDK configuration that the client is created with ([`super::Cloud::sdk_config_as`]).

mod api;
mod objects;

use std::time::Duration;

pub use api::{EksApi, EksFuture};
use aws_config::SdkConfig;
use aws_sdk_eks::{
    Client,
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
pub use objects::{EksAccessEntry, EksAddon, EksCluster, EksFargateProfile, EksIssue, OWNER_TAG};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::sdk_error::{is_transient, summarize_sdk_error};

/// Poll interval while an object is in transition.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Why EKS could not be queried.
#[derive(Debug, Error)]
pub enum EksError {
    /// The call failed.
    #[error("cannot query EKS for {what}: {reason}")]
    Failed {
        /// The queried object.
        what: String,
        /// The error.
        reason: String,
        /// Whether a retry may succeed: throttling, a server error, a timeout.
        transient: bool,
    },
    /// A stop was requested while waiting.
    #[error("interrupted while waiting for {what}")]
    Interrupted {
        /// The awaited object.
        what: String,
    },
}

impl EksError {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Failed { transient: true, .. })
    }
}

/// Health of an EKS object that is not in transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EksHealth {
    /// It does not exist.
    NotFound,
    /// It is active.
    Active,
    /// It failed and does not recover by itself; the EKS status.
    Failed(String),
}

/// EKS client of one region and principal.
#[derive(Debug, Clone)]
pub struct EksClient {
    client: Client,
}

impl EksClient {
    /// Creates a client.
    pub fn new(sdk: &SdkConfig) -> Self {
        Self { client: Client::new(sdk) }
    }

    /// Waits until an object is no longer in transition. `kind` and `id` are those of Terraform; `None` for types without a
    /// status in EKS.
    pub async fn wait_until_settled(
        &self,
        kind: &str,
        id: &str,
        stop: &CancellationToken,
    ) -> Result<Option<EksHealth>, EksError> {
        loop {
            let Some(status) = self.status(kind, id).await? else { return Ok(None) };
            let health = match status.as_deref() {
                None => EksHealth::NotFound,
                Some("ACTIVE" | "DEGRADED") => EksHealth::Active,
                Some("CREATING" | "UPDATING" | "PENDING" | "DELETING") => {
                    tokio::select! {
                        () = tokio::time::sleep(POLL_INTERVAL) => continue,
                        () = stop.cancelled() => {
                            return Err(EksError::Interrupted { what: format!("{kind} {id}") });
                        }
                    }
                }
                Some(other) => EksHealth::Failed(other.to_owned()),
            };
            return Ok(Some(health));
        }
    }

    /// Creation time in Unix seconds; `None` if the object does not exist or its type is not one of EKS.
    pub async fn created_at(&self, kind: &str, id: &str) -> Result<Option<i64>, EksError> {
        Ok(self.describe_object(kind, id).await?.flatten().and_then(|standing| standing.created))
    }

    /// `None`: not a type of EKS. `Some(None)`: the object does not exist.
    async fn status(&self, kind: &str, id: &str) -> Result<Option<Option<String>>, EksError> {
        Ok(self
            .describe_object(kind, id)
            .await?
            .map(|standing| standing.and_then(|standing| standing.status)))
    }

    async fn describe_object(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<Option<EksObjectStatus>>, EksError> {
        let what = format!("{kind} {id}");
        // Terraform ids join the cluster name and the object name with a colon.
        let (cluster, name) = id.split_once(':').unwrap_or((id, ""));
        let standing = match kind {
            "aws_eks_cluster" => {
                let answer = self.client.describe_cluster().name(id).send().await;
                let answer = none_if_not_found(&what, answer)?;
                answer.and_then(|answer| answer.cluster).map(|it| EksObjectStatus {
                    status: it.status.map(|status| status.as_str().to_owned()),
                    created: it.created_at.map(|at| at.secs()),
                })
            }
            "aws_eks_fargate_profile" => {
                let ask = self.client.describe_fargate_profile().cluster_name(cluster);
                let answer = none_if_not_found(&what, ask.fargate_profile_name(name).send().await)?;
                answer.and_then(|answer| answer.fargate_profile).map(|it| EksObjectStatus {
                    status: it.status.map(|status| status.as_str().to_owned()),
                    created: it.created_at.map(|at| at.secs()),
                })
            }
            "aws_eks_addon" => {
                let ask = self.client.describe_addon().cluster_name(cluster);
                let answer = none_if_not_found(&what, ask.addon_name(name).send().await)?;
                answer.and_then(|answer| answer.addon).map(|it| EksObjectStatus {
                    status: it.status.map(|status| status.as_str().to_owned()),
                    created: it.created_at.map(|at| at.secs()),
                })
            }
            _ => return Ok(None),
        };
        Ok(Some(standing))
    }
}

/// Status and creation time of an EKS object.
struct EksObjectStatus {
    status: Option<String>,
    created: Option<i64>,
}

/// Maps `ResourceNotFoundException` to `None`.
fn none_if_not_found<T, E>(
    what: &str,
    answer: Result<T, SdkError<E, HttpResponse>>,
) -> Result<Option<T>, EksError>
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
        Err(error) => Err(EksError::Failed {
            what: what.to_owned(),
            reason: summarize_sdk_error(&error),
            transient: is_transient(&error),
        }),
    }
}
