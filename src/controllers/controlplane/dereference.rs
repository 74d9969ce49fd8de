//! What a control plane refers to, and what belongs to it. Reads, and decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{
    Resource, ResourceExt as _,
    api::DynamicObject,
    core::{DeserializeGuard, ObjectMeta},
};
use sandbox::api::Sandbox;
use serde::de::DeserializeOwned;

use super::{build, fargate, look::Access};
use crate::{
    api::{CaptCluster, CaptControlPlane, WorkspaceTemplate, WorkspaceTemplateApply, names as words},
    aws::Principal,
    controllers::common::{
        Context,
        cluster::{self, ClusterView},
        family::Family,
        identity::{self, IdentityError},
        unreadable,
    },
    k8s::K8sError,
    model::names,
};

/// The network of the same Cluster.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// Its object.
    pub object: CaptCluster,
    /// Its workspace.
    pub apply: Option<WorkspaceTemplateApply>,
}

/// The Secrets by which the API is reached, as far as they are there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    /// `<cluster>-kubeconfig`.
    pub programs: Option<Secret>,
    /// `<cluster>-user-kubeconfig`.
    pub people: Option<Secret>,
    /// `<cluster>-ca`.
    pub authority: Option<Secret>,
    /// `<control plane>-ca`, as upstream makes it.
    pub upstreams: Option<Secret>,
}

/// Why nobody can act for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Whether only a person can do something about it.
    pub is_failure: bool,
    /// Why.
    pub message: String,
}

/// What belongs to a control plane that is looked after.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The Cluster that owns it.
    pub cluster: ClusterView,
    /// The network of that Cluster.
    pub network: Option<Network>,
    /// The workspace of the EKS cluster.
    pub eks: Option<WorkspaceTemplateApply>,
    /// The workspaces of Fargate profiles, also of those that the spec does not name any more.
    pub profiles: Vec<WorkspaceTemplateApply>,
    /// Names that we would give to workspaces and that are taken, each with its owner.
    pub taken: BTreeMap<String, String>,
    /// How the API is reached, as the EKS cluster's workspace tells.
    pub connection: Option<Access>,
    /// The Secrets by which others reach it.
    pub secrets: Secrets,
    /// Who acts.
    pub principal: Result<Principal, Unknown>,
}

/// The Cluster that an object's owner reference names, if it is there and the same.
pub(crate) async fn owner(
    object: &CaptControlPlane,
    ctx: &Context,
) -> Result<Option<DynamicObject>, K8sError> {
    let Some(reference) = cluster::owner(&object.metadata) else { return Ok(None) };
    let kind = cluster::resource(&ctx.cluster_version);
    let found = ctx.kube.get_dynamic(&kind, object.namespace().as_deref(), &reference.name).await?;
    Ok(found.filter(|found| found.metadata.uid.as_ref() == Some(&reference.uid)))
}

/// Reads what belongs to a control plane.
pub(crate) async fn look(
    object: &CaptControlPlane,
    owner: &DynamicObject,
    ctx: &Context,
) -> Result<Seen, K8sError> {
    let view = ClusterView::of(owner);
    let apply_name = build::apply_name(object);
    let (network, (eks, taken_eks), (profiles, mut taken), secrets) = tokio::try_join!(
        network(owner, ctx),
        own(object, &apply_name, ctx),
        profiles(object, &view.name, ctx),
        secrets(object, &view.name, ctx),
    )?;
    taken.extend(taken_eks.map(|owner| (apply_name, owner)));
    let (connection, principal) =
        tokio::try_join!(connection(object, eks.as_ref(), ctx), principal(object, network.as_ref(), ctx))?;
    Ok(Seen { cluster: view, network, eks, profiles, taken, connection, secrets, principal })
}

/// What is left of a control plane that goes.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    /// Sandboxes with forks in the cluster.
    pub sandboxes: Vec<ObjectMeta>,
    /// Services of routers that AWS made something for, or why the cluster did not tell.
    pub balancers: Result<Vec<Service>, String>,
    /// The workspace of the EKS cluster.
    pub eks: Option<WorkspaceTemplateApply>,
    /// The workspaces of Fargate profiles.
    pub profiles: Vec<WorkspaceTemplateApply>,
    /// Secrets of ours.
    pub secrets: Vec<Secret>,
}

impl Default for Remains {
    fn default() -> Self {
        Self {
            sandboxes: Vec::new(),
            balancers: Ok(Vec::new()),
            eks: None,
            profiles: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

/// Reads what is left, but for what is in the cluster itself.
pub(crate) async fn remains(object: &CaptControlPlane, ctx: &Context) -> Result<Remains, K8sError> {
    let family = Family::of(&object.metadata);
    let uid = object.uid().unwrap_or_default();
    let (eks, _) = own(object, &build::apply_name(object), ctx).await?;
    let Some(Family { name, .. }) = family else {
        return Ok(Remains { eks, ..Remains::default() });
    };
    let ((profiles, _), found, sandboxes) = tokio::try_join!(
        profiles(object, &name, ctx),
        secrets(object, &name, ctx),
        sandboxes(object, &name, ctx),
    )?;
    let Secrets { programs, people, authority, upstreams } = found;
    let ours = |secret: &Secret| secret.owner_references().iter().any(|it| it.uid == uid);
    let secrets = [programs, people, authority, upstreams].into_iter().flatten().filter(ours).collect();
    Ok(Remains { sandboxes, eks, profiles, secrets, ..Remains::default() })
}

/// Sandboxes that name this Cluster. One that cannot be read has made nothing.
async fn sandboxes(
    object: &CaptControlPlane,
    cluster: &str,
    ctx: &Context,
) -> Result<Vec<ObjectMeta>, K8sError> {
    let all: Vec<DeserializeGuard<Sandbox>> = ctx.kube.list_if_served(object.namespace().as_deref()).await?;
    let here = unreadable::readable(all)
        .into_iter()
        .filter(|it| it.spec.cluster_ref.as_ref().is_some_and(|reference| reference.name == cluster));
    Ok(here.map(|it| it.metadata).collect())
}

/// The network that a Cluster refers to, if it belongs to it.
async fn network(owner: &DynamicObject, ctx: &Context) -> Result<Option<Network>, K8sError> {
    let home = owner.namespace();
    let reference = owner.data.pointer("/spec/infrastructureRef");
    let text = |key: &str| reference.and_then(|it| it.get(key)?.as_str());
    let found = match text("name").filter(|_| text("kind") == Some("CAPTCluster")) {
        Some(name) => readable(ctx.kube.get(home.as_deref(), name).await?),
        None => {
            let label = format!("{}={}", words::CLUSTER_NAME_LABEL, owner.name_any());
            let all: Vec<DeserializeGuard<CaptCluster>> = ctx.kube.list(home.as_deref(), &label).await?;
            all.into_iter().find_map(|it| it.0.ok())
        }
    };
    let belongs = |object: &CaptCluster| {
        cluster::owner(&object.metadata).is_some_and(|it| Some(&it.uid) == owner.metadata.uid.as_ref())
    };
    let Some(object) = found.filter(belongs) else { return Ok(None) };
    let apply = readable(ctx.kube.get(home.as_deref(), &Network::apply_name(&object)).await?);
    Ok(Some(Network { object, apply }))
}

/// A workspace of this name: ours, or the owner that it has instead.
async fn own(
    object: &CaptControlPlane,
    name: &str,
    ctx: &Context,
) -> Result<(Option<WorkspaceTemplateApply>, Option<String>), K8sError> {
    let found: Option<WorkspaceTemplateApply> = ctx.kube.get(object.namespace().as_deref(), name).await?;
    let uid = object.uid().unwrap_or_default();
    let stranger = found.as_ref().and_then(|found| {
        let mut owners = found.owner_references().iter();
        owners.find(|it| it.controller == Some(true) && it.uid != uid).cloned()
    });
    Ok(match stranger {
        Some(owner) => (None, Some(format!("{} {}", owner.kind, owner.name))),
        None => (found, None),
    })
}

/// All workspaces of profiles that are ours, and names that are taken.
async fn profiles(
    object: &CaptControlPlane,
    cluster: &str,
    ctx: &Context,
) -> Result<(Vec<WorkspaceTemplateApply>, BTreeMap<String, String>), K8sError> {
    let uid = object.uid().unwrap_or_default();
    let labels = format!("{}={cluster},{}", words::CLUSTER_NAME_LABEL, words::FARGATE_PROFILE_LABEL);
    let mut found: Vec<WorkspaceTemplateApply> =
        ctx.kube.list(object.namespace().as_deref(), &labels).await?;
    found.retain(|apply| apply.owner_references().iter().any(|it| it.uid == uid));
    let known: BTreeSet<String> = found.iter().map(kube::ResourceExt::name_any).collect();
    let mut taken = BTreeMap::new();
    for profile in crate::model::fargate::wanted(&object.spec) {
        let name = fargate::apply_name(object, &profile.name);
        if !known.contains(&name) {
            // Without its label, or somebody else's.
            let (ours, owner) = own(object, &name, ctx).await?;
            found.extend(ours);
            taken.extend(owner.map(|owner| (name, owner)));
        }
    }
    Ok((found, taken))
}

async fn secrets(object: &CaptControlPlane, cluster: &str, ctx: &Context) -> Result<Secrets, K8sError> {
    let home = object.namespace();
    let get = |name: String| {
        let home = home.clone();
        async move { ctx.kube.get::<Secret>(home.as_deref(), &name).await }
    };
    let upstreams = names::authority_secret(&object.name_any());
    let (programs, people, authority, upstreams) = tokio::try_join!(
        get(names::kubeconfig_secret(cluster)),
        get(names::user_kubeconfig_secret(cluster)),
        get(names::authority_secret(cluster)),
        get(upstreams),
    )?;
    Ok(Secrets { programs, people, authority, upstreams })
}

/// How the API is reached, by the Secret with the workspace's outputs.
async fn connection(
    object: &CaptControlPlane,
    eks: Option<&WorkspaceTemplateApply>,
    ctx: &Context,
) -> Result<Option<Access>, K8sError> {
    let Some(status) = eks.and_then(|apply| apply.status.as_ref()) else { return Ok(None) };
    let at = status.connection_secret_ref.clone().unwrap_or_else(|| build::connection_secret(object));
    // What is elsewhere may be somebody else's.
    if Some(&at.namespace) != object.namespace().as_ref() {
        return Ok(None);
    }
    let found: Option<Secret> = ctx.kube.get(Some(&at.namespace), &at.name).await?;
    let data = found.and_then(|secret| secret.data).unwrap_or_default();
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok().filter(|it| !it.is_empty());
    Ok(text("cluster_endpoint")
        .zip(text("cluster_certificate_authority_data"))
        .map(|(endpoint, authority)| Access { endpoint, authority }))
}

/// Who acts: the identity of the control plane, of its network, or of its template; else ourselves.
async fn principal(
    object: &CaptControlPlane,
    network: Option<&Network>,
    ctx: &Context,
) -> Result<Result<Principal, Unknown>, K8sError> {
    let home = object.namespace().unwrap_or_default();
    let own = object.spec.identity_ref.as_ref().map(|it| it.name.clone());
    let said = own.or_else(|| network.and_then(Network::identity));
    let found = match said {
        Some(name) => identity::find(&ctx.kube, Some(&name), &home).await,
        None => match templates_identity(object, ctx).await? {
            Some(name) => match identity::find(&ctx.kube, Some(&name), &home).await {
                // The name that every template has if it says none.
                Err(IdentityError::Missing { .. }) if name == "default" => Ok(Principal::own()),
                found => found,
            },
            None => Ok(Principal::own()),
        },
    };
    match found {
        Err(IdentityError::Unread { source, .. }) => Err(source),
        Err(error) => Ok(Err(Unknown {
            is_failure: error.class() == crate::error::Class::Invalid,
            message: error.whole(),
        })),
        Ok(principal) => Ok(Ok(principal)),
    }
}

async fn templates_identity(object: &CaptControlPlane, ctx: &Context) -> Result<Option<String>, K8sError> {
    let Some(reference) = &object.spec.workspace_template_ref else { return Ok(None) };
    let namespace = reference.namespace.clone().filter(|it| !it.is_empty()).or_else(|| object.namespace());
    let found: Option<WorkspaceTemplate> =
        readable(ctx.kube.get(namespace.as_deref(), &reference.name).await?);
    Ok(found.map(|template| template.spec.template.spec.provider_config_ref.name))
}

/// An object, unless it cannot be read.
fn readable<K: Resource + DeserializeOwned>(found: Option<DeserializeGuard<K>>) -> Option<K> {
    found.and_then(|it| it.0.ok())
}
