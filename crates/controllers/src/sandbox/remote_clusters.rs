//! Lookup of and connections to the workload clusters that this operator created.
//!
//! The kubeconfig comes from the Secret of the control plane, whose token rotates every few minutes. The swappable client keeps
//! its identity across rotations, so that the controllers of the cluster are not restarted.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use capt_kinds::api::{CaptControlPlane, FargateProfile, FargateSelector};
use capt_kinds::sandbox::Sandbox;
use capt_kube::k8s::{K8sError, KubeClient, SwappableClient, connect_by_token};
use capt_model::model::{fargate, names};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Resource as _, ResourceExt as _,
    core::{DeserializeGuard, ObjectMeta},
};
use sandbox::fargate::{Profile, Selector};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    context::Context,
    fork_target::{ClusterNamespace, cluster_namespace},
    watch as watches,
};
use crate::{
    common::{cluster, invalid_object},
    sandbox_common::remote_target::{RemoteTarget, SandboxScope, StartRemoteControllers},
};

/// Key of the kubeconfig in its Secret.
const KUBECONFIG_KEY: &str = "value";
/// Refresh interval of the client; a token lives for 15 minutes.
const TOKEN_REFRESH: Duration = Duration::from_mins(1);
/// How long a cluster may take to establish our CRDs.
const CRD_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected workload cluster.
#[derive(Debug, Clone)]
pub(super) struct ClusterClient {
    /// Its client.
    pub kube: KubeClient,
    /// Name of the Cluster.
    pub cluster: String,
}

/// The result of a cluster lookup.
#[derive(Debug)]
pub(super) enum ClusterLookup {
    /// It is connected.
    Ready(ClusterClient),
    /// It is not initialized yet, or cannot be used; a watch triggers the next attempt.
    NotReady(String),
    /// It does not respond as expected; the caller has to retry.
    Unreachable(String),
    /// It does not exist.
    NotFound(String),
}

/// The connected clusters, each with its running controllers.
#[derive(Debug, Default)]
pub struct ClusterConnections(Mutex<BTreeMap<ClusterNamespace, ClusterConnection>>);

#[derive(Debug)]
struct ClusterConnection {
    /// Uid of the control plane: a recreated one of the same name is a different cluster.
    control_plane_uid: Option<String>,
    kube: KubeClient,
    profiles: watch::Sender<Vec<Profile>>,
    stop: CancellationToken,
    _cancel_on_drop: DropGuard,
}

/// Looks up and connects the cluster of a Sandbox.
pub(super) async fn find_cluster(object: &Sandbox, ctx: &Context) -> Result<ClusterLookup, K8sError> {
    let spot = cluster_namespace(object);
    let cluster = spot.cluster.clone().unwrap_or_default();
    let SandboxScope::ManagementCluster(open) = &ctx.scope else {
        return Ok(ClusterLookup::NotReady(
            "clusterRef is only supported in the management cluster".to_owned(),
        ));
    };
    let Some(control_plane) = find_control_plane(&spot.namespace, &cluster, ctx).await? else {
        return Ok(ClusterLookup::NotFound(format!("no CAPTControlPlane belongs to Cluster {cluster}")));
    };
    if !is_initialized(&control_plane) {
        let name = control_plane.name_any();
        return Ok(ClusterLookup::NotReady(format!("CAPTControlPlane {name} is not initialized yet")));
    }
    if let Some(kube) = ctx.clusters.get(&spot, &control_plane) {
        return Ok(ClusterLookup::Ready(ClusterClient { kube, cluster }));
    }
    let Some(text) = read_kubeconfig(&spot, &control_plane.metadata, &ctx.common.kube).await? else {
        let secret = names::kubeconfig_secret(&cluster);
        return Ok(ClusterLookup::NotReady(format!("kubeconfig Secret {secret} does not exist yet")));
    };
    match connect(&spot, &text, &control_plane, (open, ctx)).await {
        Ok(kube) => Ok(ClusterLookup::Ready(ClusterClient { kube, cluster })),
        Err(error @ K8sError::Untrusted { .. }) => {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let secret = names::kubeconfig_secret(&cluster);
            Ok(ClusterLookup::NotReady(format!("cannot use the kubeconfig in Secret {secret}: {why}")))
        }
        Err(error) => Ok(ClusterLookup::Unreachable(describe_error(&error))),
    }
}

/// An error with its source, for a condition message.
pub(super) fn describe_error(error: &K8sError) -> String {
    let cause = std::error::Error::source(error).map(|it| format!(": {it}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Whether a cluster is initialized and its kubeconfig Secret is ready.
pub(super) fn is_initialized(control_plane: &CaptControlPlane) -> bool {
    let status = control_plane.status.clone().unwrap_or_default();
    let is_made = status.initialization.is_some_and(|it| it.control_plane_initialized == Some(true));
    is_made && status.secrets_ready
}

/// Installs our CRDs in a cluster and starts the controllers there.
pub(super) async fn connect(
    spot: &ClusterNamespace,
    text: &str,
    control_plane: &CaptControlPlane,
    (open, ctx): (&StartRemoteControllers, &Context),
) -> Result<KubeClient, K8sError> {
    let way = SwappableClient::new(connect_by_token(text).await?);
    let kube = ctx.common.kube.with_client(way.client());
    let kinds = capt_kinds::sandbox::crds();
    kube.install_crds(&kinds).await?;
    let all: Vec<&str> = kinds.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
    kube.wait_for_crds(&all, CRD_TIMEOUT).await?;
    let stop = CancellationToken::new();
    let (profiles, told) = watch::channel(fargate_profiles(control_plane));
    let known = ClusterConnection {
        control_plane_uid: control_plane.uid(),
        kube: kube.clone(),
        profiles,
        _cancel_on_drop: stop.clone().drop_guard(),
        stop: stop.clone(),
    };
    // Concurrent reconciles of two Sandboxes: the second one reuses the connection of the first.
    if let Some(kube) = ctx.clusters.insert_or_get(spot, known) {
        return Ok(kube);
    }
    let renewal = refresh_client(spot.clone(), control_plane.metadata.clone(), ctx.common.kube.clone(), way);
    let heard = watches::watch_mirrors(kube.client(), spot, ctx);
    let follow = async move { tokio::join!(renewal, heard) };
    tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
    open(RemoteTarget {
        kube: kube.clone(),
        namespace: spot.namespace.clone(),
        fargate_profiles: told,
        stop,
    });
    Ok(kube)
}

/// Replaces the client whenever the kubeconfig is rotated. Runs as long as it is polled.
async fn refresh_client(spot: ClusterNamespace, owner: ObjectMeta, home: KubeClient, way: SwappableClient) {
    loop {
        tokio::time::sleep(TOKEN_REFRESH).await;
        let client = match read_kubeconfig(&spot, &owner, &home).await {
            Ok(Some(text)) => connect_by_token(&text).await,
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        match client {
            Ok(client) => way.replace(client),
            Err(error) => {
                tracing::warn!(cluster = spot.cluster, %error, "failed to refresh the cluster client");
            }
        }
    }
}

/// The Fargate profiles of a cluster, by their names in EKS.
fn fargate_profiles(control_plane: &CaptControlPlane) -> Vec<Profile> {
    let known = control_plane.status.clone().unwrap_or_default().fargate_profile_statuses;
    let one = |profile: FargateProfile| {
        let in_eks = known.iter().find(|it| it.name == profile.name).and_then(|it| it.profile_name.clone());
        let selector = |it: FargateSelector| Selector { namespace: it.namespace, labels: it.labels };
        Profile {
            name: in_eks.unwrap_or(profile.name),
            selectors: profile.selectors.into_iter().map(selector).collect(),
        }
    };
    fargate::desired_profiles(&control_plane.spec).into_iter().map(one).collect()
}

/// The control plane of a Cluster.
async fn find_control_plane(
    namespace: &str,
    name: &str,
    ctx: &Context,
) -> Result<Option<CaptControlPlane>, K8sError> {
    let all: Vec<DeserializeGuard<CaptControlPlane>> = ctx.common.kube.list(Some(namespace), "").await?;
    Ok(invalid_object::filter_valid(all).into_iter().find(|it| belongs_to_cluster(it.meta(), name)))
}

/// Whether an object belongs to a Cluster of this name.
pub(super) fn belongs_to_cluster(meta: &ObjectMeta, cluster_name: &str) -> bool {
    cluster::owner_cluster_ref(meta).is_some_and(|it| it.name == cluster_name)
        || cluster::cluster_name_label(meta) == Some(cluster_name)
}

/// The kubeconfig, if the control plane owns the Secret. A foreign Secret could redirect the operator to any server.
pub(super) async fn read_kubeconfig(
    spot: &ClusterNamespace,
    owner: &ObjectMeta,
    kube: &KubeClient,
) -> Result<Option<String>, K8sError> {
    let name = names::kubeconfig_secret(spot.cluster.as_deref().unwrap_or_default());
    let secret: Option<Secret> = kube.get(Some(&spot.namespace), &name).await?;
    let is_kept = |it: &Secret| it.owner_references().iter().any(|it| Some(&it.uid) == owner.uid.as_ref());
    let bytes = secret.filter(is_kept).and_then(|it| it.data?.remove(KUBECONFIG_KEY));
    Ok(bytes.and_then(|it| String::from_utf8(it.0).ok()))
}

impl ClusterConnections {
    /// The client of a connected cluster. Publishes the current Fargate profiles to its controllers.
    pub(super) fn get(
        &self,
        spot: &ClusterNamespace,
        control_plane: &CaptControlPlane,
    ) -> Option<KubeClient> {
        let all = self.lock();
        let known = all.get(spot).filter(|it| it.is_current(control_plane.uid().as_deref()))?;
        let now = fargate_profiles(control_plane);
        known.profiles.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
        Some(known.kube.clone())
    }

    /// Inserts a connection, or returns the client of the existing one.
    fn insert_or_get(&self, spot: &ClusterNamespace, known: ClusterConnection) -> Option<KubeClient> {
        let mut all = self.lock();
        if let Some(first) = all.get(spot).filter(|it| it.is_current(known.control_plane_uid.as_deref())) {
            return Some(first.kube.clone());
        }
        all.insert(spot.clone(), known);
        None
    }

    /// Drops a connection, which stops its controllers.
    pub(super) fn disconnect(&self, spot: &ClusterNamespace) {
        self.lock().remove(spot);
    }

    /// All connected clusters.
    pub(super) fn locations(&self) -> Vec<ClusterNamespace> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterNamespace, ClusterConnection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClusterConnection {
    /// Whether it belongs to this control plane and its controllers are running.
    fn is_current(&self, owner: Option<&str>) -> bool {
        self.control_plane_uid.as_deref() == owner && !self.stop.is_cancelled()
    }
}
