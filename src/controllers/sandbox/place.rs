//! The cluster in which the forks of a Sandbox live: our own, or one that this operator made.
//!
//! The way to another cluster is the Secret that its control plane keeps, whose token is replaced every few minutes. So the
//! Secret is read at each look, and a client lives as long as its token.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Resource as _, ResourceExt as _,
    core::{DeserializeGuard, ObjectMeta},
};
use sandbox::{
    api::Sandbox,
    fargate::{Profile, Selector},
};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) use super::index::Spot;
use super::{context::Context, watch};
use crate::{
    api::{CaptControlPlane, FargateProfile, FargateSelector},
    controllers::common::{cluster, unreadable},
    k8s::{K8sError, Kube, connect_by_token},
    model::{fargate, names},
};

/// The key of a kubeconfig in its Secret.
const VALUE: &str = "value";

/// Where forks are made.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The API server there.
    pub kube: Kube,
    /// Which cluster, and the namespace.
    pub spot: Spot,
    /// What is known of the cluster, if this operator made it.
    pub control_plane: Option<Box<CaptControlPlane>>,
}

impl Place {
    /// Whether owners can own what is made there.
    pub(super) fn is_own(&self) -> bool {
        self.spot.cluster.is_none()
    }
}

/// What came of the search for a place.
#[derive(Debug)]
pub(super) enum Found {
    /// It can be used.
    Here(Place),
    /// It is being made, or cannot be used at present.
    NotReady(String),
    /// There is no such cluster.
    Gone(String),
}

/// The clusters that were found, each with its watches.
#[derive(Debug, Default)]
pub struct Places(Mutex<BTreeMap<Spot, Known>>);

#[derive(Debug)]
struct Known {
    digest: [u8; 32],
    kube: Kube,
    _watched: DropGuard,
}

/// Which cluster a Sandbox is about, and the namespace.
pub(super) fn spot(object: &Sandbox) -> Spot {
    Spot {
        cluster: object.spec.cluster_ref.as_ref().map(|it| it.name.clone()),
        namespace: object.namespace().unwrap_or_default(),
    }
}

/// Finds the place of a Sandbox.
pub(super) async fn find(object: &Sandbox, ctx: &Context) -> Result<Found, K8sError> {
    let spot = spot(object);
    let Some(cluster) = spot.cluster.clone() else {
        return Ok(Found::Here(Place { kube: ctx.common.kube.clone(), spot, control_plane: None }));
    };
    let Some(control_plane) = control_plane(&spot.namespace, &cluster, ctx).await? else {
        return Ok(Found::Gone(format!("no CAPTControlPlane belongs to Cluster {cluster}")));
    };
    let status = control_plane.status.clone().unwrap_or_default();
    let is_up = status.initialization.is_some_and(|it| it.control_plane_initialized == Some(true));
    if !is_up || !status.secrets_ready {
        let name = control_plane.name_any();
        return Ok(Found::NotReady(format!("CAPTControlPlane {name} is not initialized yet")));
    }
    let secret = names::kubeconfig_secret(&cluster);
    let found: Option<Secret> = ctx.common.kube.get(Some(&spot.namespace), &secret).await?;
    let Some(text) = found.as_ref().and_then(|found| kubeconfig(found, &control_plane.metadata)) else {
        return Ok(Found::NotReady(format!("Secret {secret} with the kubeconfig is not there yet")));
    };
    let kube = match ctx.places.client(&spot, &text, ctx).await {
        Ok(kube) => kube,
        Err(error @ K8sError::Untrusted { .. }) => {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            return Ok(Found::NotReady(format!("cannot use the kubeconfig in Secret {secret}: {why}")));
        }
        Err(error) => return Err(error),
    };
    Ok(Found::Here(Place { kube, spot, control_plane: Some(Box::new(control_plane)) }))
}

/// The Fargate profiles of a cluster that this operator made, by the names that they have in EKS.
pub(super) fn profiles(place: &Place) -> Vec<Profile> {
    let Some(control_plane) = &place.control_plane else { return Vec::new() };
    let known = control_plane.status.clone().unwrap_or_default().fargate_profile_statuses;
    let one = |profile: FargateProfile| {
        let in_eks = known.iter().find(|it| it.name == profile.name).and_then(|it| it.profile_name.clone());
        let selector = |it: FargateSelector| Selector { namespace: it.namespace, labels: it.labels };
        Profile {
            name: in_eks.unwrap_or(profile.name),
            selectors: profile.selectors.into_iter().map(selector).collect(),
        }
    };
    fargate::wanted(&control_plane.spec).into_iter().map(one).collect()
}

/// The control plane of a Cluster.
async fn control_plane(
    namespace: &str,
    name: &str,
    ctx: &Context,
) -> Result<Option<CaptControlPlane>, K8sError> {
    let all: Vec<DeserializeGuard<CaptControlPlane>> = ctx.common.kube.list(Some(namespace), "").await?;
    Ok(unreadable::readable(all).into_iter().find(|it| belongs(it.meta(), name)))
}

/// Whether an object belongs to a Cluster of this name.
pub(super) fn belongs(meta: &ObjectMeta, cluster_name: &str) -> bool {
    cluster::owner(meta).is_some_and(|it| it.name == cluster_name)
        || cluster::label(meta) == Some(cluster_name)
}

/// The kubeconfig, if the control plane keeps the Secret: one of somebody else could lead anywhere.
fn kubeconfig(secret: &Secret, owner: &ObjectMeta) -> Option<String> {
    let is_kept = secret.owner_references().iter().any(|it| Some(&it.uid) == owner.uid.as_ref());
    let bytes = secret.data.as_ref().filter(|_| is_kept)?.get(VALUE)?;
    String::from_utf8(bytes.0.clone()).ok()
}

impl Places {
    /// The client for this kubeconfig: the one that is there, or a new one with new watches.
    async fn client(&self, spot: &Spot, text: &str, ctx: &Context) -> Result<Kube, K8sError> {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        if let Some(known) = self.lock().get(spot).filter(|known| known.digest == digest) {
            return Ok(known.kube.clone());
        }
        let kube = ctx.common.kube.towards(connect_by_token(text).await?);
        let stop = CancellationToken::new();
        let watched = watch::of_cluster(kube.client(), spot.clone(), ctx);
        tokio::spawn(stop.clone().run_until_cancelled_owned(watched));
        self.lock().insert(spot.clone(), Known { digest, kube: kube.clone(), _watched: stop.drop_guard() });
        Ok(kube)
    }

    /// Nobody uses this cluster any more.
    pub(super) fn forget(&self, spot: &Spot) {
        self.lock().remove(spot);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Spot, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
