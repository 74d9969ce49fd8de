//! The clusters that this operator made, for Sandboxes that live there.
//!
//! The way to one is the Secret that its control plane keeps, whose token is replaced every few minutes. The client stays the
//! same meanwhile, so that the controllers there go on.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
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
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    context::Context,
    place::{Spot, spot},
    watch as watches,
};
use crate::{
    api::{CaptControlPlane, FargateProfile, FargateSelector},
    controllers::common::{
        cluster,
        outpost::{Ground, Open, Outpost},
        unreadable,
    },
    k8s::{K8sError, Kube, Way, connect_by_token},
    model::{fargate, names},
};

/// The key of a kubeconfig in its Secret.
const VALUE: &str = "value";
/// How often the token is looked for; it lives for a quarter of an hour.
const RENEWAL: Duration = Duration::from_mins(1);
/// How long a cluster may take to serve our kinds.
const ESTABLISHED: Duration = Duration::from_secs(10);

/// A cluster that can be worked in.
#[derive(Debug, Clone)]
pub(super) struct Far {
    /// Its API server.
    pub kube: Kube,
    /// Name of the Cluster.
    pub cluster: String,
}

/// What came of the search for a cluster.
#[derive(Debug)]
pub(super) enum Found {
    /// It can be used.
    Here(Far),
    /// It is being made, or cannot be used at present.
    NotReady(String),
    /// It should be there, and does not answer as it should; nobody tells when it does.
    Away(String),
    /// There is no such cluster.
    Gone(String),
}

/// The clusters that were found, each with the controllers that work there.
#[derive(Debug, Default)]
pub struct Clusters(Mutex<BTreeMap<Spot, Known>>);

#[derive(Debug)]
struct Known {
    /// The control plane: another one of the same name is another cluster.
    owner: Option<String>,
    kube: Kube,
    profiles: watch::Sender<Vec<Profile>>,
    stop: CancellationToken,
    _ends_with_us: DropGuard,
}

/// Finds the cluster of a Sandbox.
pub(super) async fn find(object: &Sandbox, ctx: &Context) -> Result<Found, K8sError> {
    let spot = spot(object);
    let cluster = spot.cluster.clone().unwrap_or_default();
    let Ground::Home(open) = &ctx.ground else {
        return Ok(Found::NotReady("clusters are made from another cluster than this one".to_owned()));
    };
    let Some(control_plane) = control_plane(&spot.namespace, &cluster, ctx).await? else {
        return Ok(Found::Gone(format!("no CAPTControlPlane belongs to Cluster {cluster}")));
    };
    if !is_up(&control_plane) {
        let name = control_plane.name_any();
        return Ok(Found::NotReady(format!("CAPTControlPlane {name} is not initialized yet")));
    }
    if let Some(kube) = ctx.clusters.known(&spot, &control_plane) {
        return Ok(Found::Here(Far { kube, cluster }));
    }
    let Some(text) = kubeconfig(&spot, &control_plane.metadata, &ctx.common.kube).await? else {
        let secret = names::kubeconfig_secret(&cluster);
        return Ok(Found::NotReady(format!("Secret {secret} with the kubeconfig is not there yet")));
    };
    match begin(&spot, &text, &control_plane, (open, ctx)).await {
        Ok(kube) => Ok(Found::Here(Far { kube, cluster })),
        Err(error @ K8sError::Untrusted { .. }) => {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let secret = names::kubeconfig_secret(&cluster);
            Ok(Found::NotReady(format!("cannot use the kubeconfig in Secret {secret}: {why}")))
        }
        Err(error) => Ok(Found::Away(told(&error))),
    }
}

/// What another cluster said, or why it said nothing.
pub(super) fn told(error: &K8sError) -> String {
    let cause = std::error::Error::source(error).map(|it| format!(": {it}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Whether a cluster is there, and the way to it.
pub(super) fn is_up(control_plane: &CaptControlPlane) -> bool {
    let status = control_plane.status.clone().unwrap_or_default();
    let is_made = status.initialization.is_some_and(|it| it.control_plane_initialized == Some(true));
    is_made && status.secrets_ready
}

/// Brings our kinds to a cluster, and lets their controllers work there.
pub(super) async fn begin(
    spot: &Spot,
    text: &str,
    control_plane: &CaptControlPlane,
    (open, ctx): (&Open, &Context),
) -> Result<Kube, K8sError> {
    let way = Way::new(connect_by_token(text).await?);
    let kube = ctx.common.kube.towards(way.client());
    let kinds = sandbox::api::crds();
    kube.install_crds(&kinds).await?;
    let all: Vec<&str> = kinds.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
    kube.established(&all, ESTABLISHED).await?;
    let stop = CancellationToken::new();
    let (profiles, told) = watch::channel(profiles(control_plane));
    let known = Known {
        owner: control_plane.uid(),
        kube: kube.clone(),
        profiles,
        _ends_with_us: stop.clone().drop_guard(),
        stop: stop.clone(),
    };
    // Two Sandboxes may be here at once; the second one finds what the first one began.
    if let Some(kube) = ctx.clusters.keep(spot, known) {
        return Ok(kube);
    }
    let renewal = renew(spot.clone(), control_plane.metadata.clone(), ctx.common.kube.clone(), way);
    let heard = watches::of_cluster(kube.client(), spot, ctx);
    let follow = async move { tokio::join!(renewal, heard) };
    tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
    open(Outpost { kube: kube.clone(), namespace: spot.namespace.clone(), profiles: told, stop });
    Ok(kube)
}

/// Takes the way that the newest kubeconfig shows, for as long as it is polled.
async fn renew(spot: Spot, owner: ObjectMeta, home: Kube, way: Way) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let client = match kubeconfig(&spot, &owner, &home).await {
            Ok(Some(text)) => connect_by_token(&text).await,
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        match client {
            Ok(client) => way.replace(client),
            Err(error) => {
                tracing::warn!(cluster = spot.cluster, %error, "the kubeconfig of a cluster cannot be read");
            }
        }
    }
}

/// The Fargate profiles of a cluster that this operator made, by the names that they have in EKS.
fn profiles(control_plane: &CaptControlPlane) -> Vec<Profile> {
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
pub(super) async fn kubeconfig(
    spot: &Spot,
    owner: &ObjectMeta,
    kube: &Kube,
) -> Result<Option<String>, K8sError> {
    let name = names::kubeconfig_secret(spot.cluster.as_deref().unwrap_or_default());
    let secret: Option<Secret> = kube.get(Some(&spot.namespace), &name).await?;
    let is_kept = |it: &Secret| it.owner_references().iter().any(|it| Some(&it.uid) == owner.uid.as_ref());
    let bytes = secret.filter(is_kept).and_then(|it| it.data?.remove(VALUE));
    Ok(bytes.and_then(|it| String::from_utf8(it.0).ok()))
}

impl Clusters {
    /// The way to a cluster in which controllers work. They are told of its profiles.
    pub(super) fn known(&self, spot: &Spot, control_plane: &CaptControlPlane) -> Option<Kube> {
        let all = self.lock();
        let known = all.get(spot).filter(|it| it.is_good(control_plane.uid().as_deref()))?;
        let now = profiles(control_plane);
        known.profiles.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
        Some(known.kube.clone())
    }

    /// Keeps a cluster; gives the one that is known already, if there is one.
    fn keep(&self, spot: &Spot, known: Known) -> Option<Kube> {
        let mut all = self.lock();
        if let Some(first) = all.get(spot).filter(|it| it.is_good(known.owner.as_deref())) {
            return Some(first.kube.clone());
        }
        all.insert(spot.clone(), known);
        None
    }

    /// Nobody uses this cluster any more.
    pub(super) fn forget(&self, spot: &Spot) {
        self.lock().remove(spot);
    }

    /// All clusters in which controllers work.
    pub(super) fn all(&self) -> Vec<Spot> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Spot, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Whether it is the cluster of this control plane, and its controllers work.
    fn is_good(&self, owner: Option<&str>) -> bool {
        self.owner.as_deref() == owner && !self.stop.is_cancelled()
    }
}
