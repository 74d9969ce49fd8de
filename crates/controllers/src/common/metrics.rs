//! Metrics hooks of the controllers. Implemented in `operator`, so that controllers do not depend on the metrics registry.

use std::time::Duration;

use capt_kube::error::ErrorClass;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileOutcome {
    /// Without error.
    Succeeded,
    /// With an error of this class.
    Failed(ErrorClass),
}

/// Cloud resources whose creation and deletion times are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisionedResource {
    /// An EKS cluster with all requested resources.
    Cluster,
    /// A Fargate profile.
    FargateProfile,
}

/// Receives measurements from the controllers. All default implementations do nothing.
pub trait ControllerMetricsSink: Send + Sync {
    /// An object was enqueued.
    fn enqueued(&self, _kind: &'static str, _object: &str) {}

    /// An enqueued object no longer exists.
    fn object_gone(&self, _kind: &'static str, _object: &str) {}

    /// A reconcile started. The returned callback receives its outcome, or is dropped if the reconcile is cancelled.
    fn reconcile_started(
        &self,
        _kind: &'static str,
        _object: &str,
    ) -> Box<dyn FnOnce(ReconcileOutcome) + Send> {
        Box::new(|_| {})
    }

    /// A resource is complete; `_took` counts from the creation of its object.
    fn resource_created(&self, _thing: ProvisionedResource, _took: Duration) {}

    /// A resource is deleted; `_took` counts from the deletion timestamp.
    fn resource_deleted(&self, _thing: ProvisionedResource, _took: Duration) {}

    /// The EKS states of the Fargate profiles of a control plane.
    fn fargate_profile_states(&self, _control_plane: &str, _states: &[&str]) {}

    /// Whether a workspace has drifted.
    fn set_drift(&self, _workspace: &str, _is: bool) {}

    /// The phase of a Sandbox; `None` after its deletion.
    fn sandbox_phase(&self, _sandbox: &str, _phase: Option<&'static str>) {}

    /// All routers of a namespace have programmed a change; `_took` counts from the change of the desired routes.
    fn routes_propagated(&self, _took: Duration) {}

    /// A Terraform state was backed up to Secrets.
    fn state_backed_up(&self, _took: Duration) {}
}

impl ControllerMetricsSink for () {}

/// Time since `then`; `None` if `then` is unset or in the future.
pub fn elapsed_since(then: Option<&Time>, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(then?.0)).ok()
}
