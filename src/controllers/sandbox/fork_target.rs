//! Where the forks of a Sandbox live: in the namespace of the Sandbox.

use kube::ResourceExt as _;
use sandbox::{api::Sandbox, fargate::Profile};

use super::context::Context;
pub(super) use super::index::Spot;
use crate::k8s::Kube;

/// Where forks are made.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The API server there.
    pub kube: Kube,
    /// The namespace.
    pub spot: Spot,
    /// The Fargate profiles, where they are known.
    pub profiles: Option<Vec<Profile>>,
}

/// The place of a Sandbox of this cluster.
pub(super) fn of(object: &Sandbox, ctx: &Context) -> Place {
    Place { kube: ctx.common.kube.clone(), spot: spot(object), profiles: ctx.ground.profiles() }
}

/// Which cluster a Sandbox is about, and the namespace.
pub(super) fn spot(object: &Sandbox) -> Spot {
    Spot {
        cluster: object.spec.cluster_ref.as_ref().map(|it| it.name.clone()),
        namespace: object.namespace().unwrap_or_default(),
    }
}
