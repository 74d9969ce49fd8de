//! Dereferences a local workload: Sandbox, baseline, Services, competing local workloads. Read only, decides nothing.

use capt_kinds::sandbox::{BaselineService, LocalWorkload, Sandbox, names};
use capt_kube::k8s::{K8sError, KubeClient};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Resource as _, ResourceExt as _, runtime::reflector::Store};
use sandbox::service::baseline_services;

use super::watch::GuardedLocalWorkload;

/// The objects that a local workload refers to.
#[derive(Debug, Clone, Default)]
pub(super) struct LocalWorkloadInputs {
    /// Its Sandbox.
    pub sandbox: Option<Sandbox>,
    /// Its baseline.
    pub baseline: BaselineLookup,
    /// The local workloads of its namespace.
    pub locals: Vec<LocalWorkload>,
}

/// The baseline of a local workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum BaselineLookup {
    /// Not read: the Sandbox is missing or refers to another cluster.
    #[default]
    NotChecked,
    /// It does not exist.
    NotFound,
    /// It exists, and these Services select it.
    Found(Vec<BaselineService>),
}

/// Reads the inputs of a local workload. Other local workloads come from the store, because each one is reconciled twice a minute
/// while an agent is connected.
pub(super) async fn dereference(
    object: &LocalWorkload,
    rivals: &Store<GuardedLocalWorkload>,
    kube: &KubeClient,
) -> Result<LocalWorkloadInputs, K8sError> {
    let home = object.namespace();
    let sandbox: Option<Sandbox> = kube.get(home.as_deref(), &object.spec.sandbox_ref.name).await?;
    // Routers read only objects of their own cluster, so this one has no effect.
    if sandbox.as_ref().is_none_or(|it| it.spec.cluster_ref.is_some()) {
        return Ok(LocalWorkloadInputs { sandbox, ..LocalWorkloadInputs::default() });
    }
    // The watch ends only with the process.
    let _ready_or_over = rivals.wait_until_ready().await;
    let here = rivals.state().into_iter().filter(|it| it.meta().namespace == home);
    // An undecodable object has no routes and conflicts with nothing.
    let locals = here.filter_map(|it| it.0.as_ref().ok().cloned()).collect();
    let baseline: Option<Deployment> = kube.get(home.as_deref(), &object.spec.from.name).await?;
    let Some(baseline) = baseline else {
        return Ok(LocalWorkloadInputs { sandbox, baseline: BaselineLookup::NotFound, locals });
    };
    let services: Vec<Service> = kube.list(home.as_deref(), &unforked_selector()).await?;
    let baseline = serde_json::to_value(&baseline).unwrap_or_default();
    let baseline = BaselineLookup::Found(baseline_services(&baseline, &services));
    Ok(LocalWorkloadInputs { sandbox, baseline, locals })
}

/// Label selector of Services that do not belong to forks.
pub(super) fn unforked_selector() -> String {
    format!("!{}", names::FORK_LABEL)
}
