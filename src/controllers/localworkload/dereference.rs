//! What a local workload is about. Reads, and decides nothing.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Resource as _, ResourceExt as _, runtime::reflector::Store};
use sandbox::{
    api::{BaselineService, LocalWorkload, Sandbox, names},
    service::baseline_services,
};

use super::watch::Seen;
use crate::k8s::{K8sError, Kube};

/// What stands around a local workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    /// Its sandbox.
    pub sandbox: Option<Sandbox>,
    /// What it stands in for.
    pub baseline: Baseline,
    /// The local workloads of its namespace.
    pub locals: Vec<LocalWorkload>,
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

/// Reads what stands around a local workload. Others of its kind are known from a watch: each of them is looked at twice a
/// minute while somebody is connected.
pub(super) async fn around(
    object: &LocalWorkload,
    rivals: &Store<Seen>,
    kube: &Kube,
) -> Result<Around, K8sError> {
    let home = object.namespace();
    let sandbox: Option<Sandbox> = kube.get(home.as_deref(), &object.spec.sandbox_ref.name).await?;
    // Routers read the objects of their own cluster, so this one would never reach them.
    if sandbox.as_ref().is_none_or(|it| it.spec.cluster_ref.is_some()) {
        return Ok(Around { sandbox, ..Around::default() });
    }
    // The watch ends only with us.
    let _ready_or_over = rivals.wait_until_ready().await;
    let here = rivals.state().into_iter().filter(|it| it.meta().namespace == home);
    // One that cannot be read has no routes, and is in nobody's way.
    let locals = here.filter_map(|it| it.0.as_ref().ok().cloned()).collect();
    let baseline: Option<Deployment> = kube.get(home.as_deref(), &object.spec.from.name).await?;
    let Some(baseline) = baseline else { return Ok(Around { sandbox, baseline: Baseline::Absent, locals }) };
    let services: Vec<Service> = kube.list(home.as_deref(), &unforked()).await?;
    let baseline = serde_json::to_value(&baseline).unwrap_or_default();
    let baseline = Baseline::Behind(baseline_services(&baseline, &services));
    Ok(Around { sandbox, baseline, locals })
}

/// The labels of Services that are not those of forks.
pub(super) fn unforked() -> String {
    format!("!{}", names::FORK_LABEL)
}
