//! What EKS says of the things that Terraform made.
//!
//! Every call has a deadline, that of the settings it is made with ([`super::Cloud::sdk_as`]).

mod ask;
mod view;

use std::time::Duration;

pub use ask::{AskEks, Asked};
use aws_config::SdkConfig;
use aws_sdk_eks::{
    Client,
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
pub use view::{AccessEntryView, AddonView, ClusterView, Issue, ProfileView};

use super::fault::{brief, is_transient};

/// How often a thing that is coming up is looked at.
const LOOK: Duration = Duration::from_secs(3);

/// Why EKS did not say.
#[derive(Debug, Error)]
pub enum EksError {
    /// It answered with an error.
    #[error("cannot ask EKS about {what}: {said}")]
    Refused {
        /// What we asked about.
        what: String,
        /// The answer.
        said: String,
        /// Whether it may be another one later: throttling, a broken service, no answer in time.
        transient: bool,
    },
    /// We were asked to stop waiting.
    #[error("interrupted while waiting for {what}")]
    Interrupted {
        /// What we waited for.
        what: String,
    },
}

impl EksError {
    /// Whether the same question may be answered later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Refused { transient: true, .. })
    }
}

/// How a thing is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is not there.
    Gone,
    /// It works.
    Active,
    /// It does not, and will not by itself.
    Failed(String),
}

/// EKS of one region.
#[derive(Debug, Clone)]
pub struct Eks {
    client: Client,
}

impl Eks {
    /// With these settings.
    pub fn new(sdk: &SdkConfig) -> Self {
        Self { client: Client::new(sdk) }
    }

    /// Waits until an object of this type and id is no longer on its way; `None` for types that have no such
    /// state.
    pub async fn settled(
        &self,
        kind: &str,
        id: &str,
        stop: &CancellationToken,
    ) -> Result<Option<Health>, EksError> {
        loop {
            let Some(status) = self.status(kind, id).await? else { return Ok(None) };
            let health = match status.as_deref() {
                None => Health::Gone,
                Some("ACTIVE" | "DEGRADED") => Health::Active,
                Some("CREATING" | "UPDATING" | "PENDING" | "DELETING") => {
                    tokio::select! {
                        () = tokio::time::sleep(LOOK) => continue,
                        () = stop.cancelled() => {
                            return Err(EksError::Interrupted { what: format!("{kind} {id}") });
                        }
                    }
                }
                Some(other) => Health::Failed(other.to_owned()),
            };
            return Ok(Some(health));
        }
    }

    /// When an object of this type and id was created, in seconds; `None` if it is not there, or not of EKS.
    pub async fn created(&self, kind: &str, id: &str) -> Result<Option<i64>, EksError> {
        Ok(self.standing(kind, id).await?.flatten().and_then(|standing| standing.created))
    }

    /// `None`: not a type of EKS. `Some(None)`: not there.
    async fn status(&self, kind: &str, id: &str) -> Result<Option<Option<String>>, EksError> {
        Ok(self.standing(kind, id).await?.map(|standing| standing.and_then(|standing| standing.status)))
    }

    async fn standing(&self, kind: &str, id: &str) -> Result<Option<Option<Standing>>, EksError> {
        let what = format!("{kind} {id}");
        // Terraform joins the names of an EKS object with a colon.
        let (cluster, name) = id.split_once(':').unwrap_or((id, ""));
        let standing = match kind {
            "aws_eks_cluster" => {
                let answer = self.client.describe_cluster().name(id).send().await;
                let answer = found(&what, answer)?;
                answer.and_then(|answer| answer.cluster).map(|it| Standing {
                    status: it.status.map(|status| status.as_str().to_owned()),
                    created: it.created_at.map(|at| at.secs()),
                })
            }
            "aws_eks_fargate_profile" => {
                let ask = self.client.describe_fargate_profile().cluster_name(cluster);
                let answer = found(&what, ask.fargate_profile_name(name).send().await)?;
                answer.and_then(|answer| answer.fargate_profile).map(|it| Standing {
                    status: it.status.map(|status| status.as_str().to_owned()),
                    created: it.created_at.map(|at| at.secs()),
                })
            }
            "aws_eks_addon" => {
                let ask = self.client.describe_addon().cluster_name(cluster);
                let answer = found(&what, ask.addon_name(name).send().await)?;
                answer.and_then(|answer| answer.addon).map(|it| Standing {
                    status: it.status.map(|status| status.as_str().to_owned()),
                    created: it.created_at.map(|at| at.secs()),
                })
            }
            _ => return Ok(None),
        };
        Ok(Some(standing))
    }
}

/// How an object stands, and since when it exists.
struct Standing {
    status: Option<String>,
    created: Option<i64>,
}

/// An answer, or the fact that there is nothing to answer about.
fn found<T, E>(what: &str, answer: Result<T, SdkError<E, HttpResponse>>) -> Result<Option<T>, EksError>
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
        Err(error) => Err(EksError::Refused {
            what: what.to_owned(),
            said: brief(&error),
            transient: is_transient(&error),
        }),
    }
}
