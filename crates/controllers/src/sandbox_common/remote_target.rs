//! Sandboxes in workload clusters that this operator created. Their controllers run in this process against the API server of
//! the workload cluster; the status of a Sandbox here mirrors the status of its mirror object there.

use std::sync::Arc;

use capt_kube::k8s::KubeClient;
use sandbox::fargate::Profile;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Current Fargate profiles of a workload cluster.
pub type FargateProfileReceiver = watch::Receiver<Vec<Profile>>;

/// A workload cluster in which Sandbox controllers run.
#[derive(Debug, Clone)]
pub struct RemoteTarget {
    /// Client of its API server.
    pub kube: KubeClient,
    /// The namespace in it.
    pub namespace: String,
    /// Its Fargate profiles, which decide where pods can be scheduled.
    pub fargate_profiles: FargateProfileReceiver,
    /// Stops the controllers. They cancel it themselves when they end early.
    pub stop: CancellationToken,
}

/// Starts the Sandbox controllers for a workload cluster. They report their own errors.
pub type StartRemoteControllers = Arc<dyn Fn(RemoteTarget) + Send + Sync>;

/// The cluster that a Sandbox controller works in.
#[derive(Clone)]
pub enum SandboxScope {
    /// The management cluster; starts controllers for workload clusters.
    ManagementCluster(StartRemoteControllers),
    /// A workload cluster.
    WorkloadCluster(FargateProfileReceiver),
}

impl SandboxScope {
    /// The Fargate profiles; `None` in the management cluster, which is not checked for them.
    pub fn fargate_profiles(&self) -> Option<Vec<Profile>> {
        match self {
            Self::ManagementCluster(_) => None,
            Self::WorkloadCluster(profiles) => Some(profiles.borrow().clone()),
        }
    }
}
