//! What a local workload is about. Reads, and decides nothing.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::ResourceExt as _;
use sandbox::{
    api::{BaselineService, LocalWorkload, Sandbox, names},
    service::baseline_services,
};

use crate::k8s::{K8sError, Kube};

/// What stands around a local workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    /// Its sandbox.
    pub sandbox: Option<Sandbox>,
    /// What it stands in for.
    pub baseline: Baseline,
}

/// What a local workload stands in for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Baseline {
    /// In another cluster, or of a sandbox that nobody knows.
    #[default]
    NotLookedAt,
    /// It does not exist.
    Absent,
    /// These Services lead to it.
    Behind(Vec<BaselineService>),
}

pub(super) async fn around(object: &LocalWorkload, kube: &Kube) -> Result<Around, K8sError> {
    let home = object.namespace();
    let sandbox: Option<Sandbox> = kube.get(home.as_deref(), &object.spec.sandbox_ref.name).await?;
    // Routers read the objects of their own cluster, so this one would never reach them.
    if sandbox.as_ref().is_none_or(|it| it.spec.cluster_ref.is_some()) {
        return Ok(Around { sandbox, baseline: Baseline::NotLookedAt });
    }
    let baseline: Option<Deployment> = kube.get(home.as_deref(), &object.spec.from.name).await?;
    let Some(baseline) = baseline else { return Ok(Around { sandbox, baseline: Baseline::Absent }) };
    let services: Vec<Service> = kube.list(home.as_deref(), &unforked()).await?;
    let baseline = serde_json::to_value(&baseline).unwrap_or_default();
    Ok(Around { sandbox, baseline: Baseline::Behind(baseline_services(&baseline, &services)) })
}

/// The labels of Services that are not those of forks.
pub(super) fn unforked() -> String {
    format!("!{}", names::FORK_LABEL)
}
