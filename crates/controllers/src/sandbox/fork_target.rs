//! The target of the forks of a Sandbox: API server and namespace.

use capt_kinds::sandbox::Sandbox;
use capt_kube::k8s::KubeClient;
use kube::ResourceExt as _;
use sandbox::fargate::Profile;

pub(super) use super::baseline_index::ClusterNamespace;
use super::context::Context;

/// Where forks are created.
#[derive(Debug, Clone)]
pub(super) struct ForkTarget {
    /// Client of the target cluster.
    pub kube: KubeClient,
    /// The namespace.
    pub location: ClusterNamespace,
    /// The Fargate profiles of the cluster; none if unknown.
    pub fargate_profiles: Option<Vec<Profile>>,
}

/// The target of a Sandbox of this cluster.
pub(super) fn fork_target(object: &Sandbox, ctx: &Context) -> ForkTarget {
    ForkTarget {
        kube: ctx.common.kube.clone(),
        location: cluster_namespace(object),
        fargate_profiles: ctx.scope.fargate_profiles(),
    }
}

/// The cluster that a Sandbox refers to, and its namespace.
pub(super) fn cluster_namespace(object: &Sandbox) -> ClusterNamespace {
    ClusterNamespace {
        cluster: object.spec.cluster_ref.as_ref().map(|it| it.name.clone()),
        namespace: object.namespace().unwrap_or_default(),
    }
}
