//! Reads the objects that a control plane references or owns. Makes no decisions and writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use capt_engine::aws::Principal;
use capt_kinds::api::{
    CaptCluster, CaptControlPlane, WorkspaceTemplate, WorkspaceTemplateApply, names as words,
};
use capt_kinds::{grant::Granted, sandbox::Sandbox};
use capt_kube::k8s::K8sError;
use capt_model::model::names;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::{
    Resource, ResourceExt as _,
    api::DynamicObject,
    core::{DeserializeGuard, ObjectMeta},
};
use serde::de::DeserializeOwned;

use super::{
    build,
    context::Context as ControllerContext,
    fargate,
    ownership::{OtherControlPlane, parse_adopted_arns},
};
use crate::common::{
    Context,
    cluster::{self, CapiClusterView},
    granted_reader::get_granted,
    identity::{self, IdentityError},
    invalid_object,
    owning_cluster::OwningCluster,
};

/// The `CAPTCluster` of the same Cluster, and its workspace.
#[derive(Debug, Clone)]
pub(crate) struct ClusterNetwork {
    /// Its object.
    pub object: CaptCluster,
    /// Its workspace.
    pub workspace: Option<WorkspaceTemplateApply>,
}

/// The Secrets for access to the API server, as far as they exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessSecrets {
    /// `<cluster>-kubeconfig`.
    pub kubeconfig: Option<Secret>,
    /// `<cluster>-user-kubeconfig`.
    pub user_kubeconfig: Option<Secret>,
    /// `<cluster>-ca`.
    pub ca: Option<Secret>,
    /// `<control plane>-ca`, created by upstream.
    pub legacy_ca: Option<Secret>,
}

/// Why no AWS principal is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdentityUnavailable {
    /// Whether it needs user action.
    pub is_failure: bool,
    /// Why.
    pub message: String,
}

/// The objects that a control plane references or owns.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlaneReferences {
    /// The Cluster that owns it.
    pub cluster: CapiClusterView,
    /// The network of that Cluster.
    pub network: Option<ClusterNetwork>,
    /// The workspace of the EKS cluster.
    pub eks_workspace: Option<WorkspaceTemplateApply>,
    /// The workspaces of Fargate profiles, including profiles removed from the spec.
    pub profile_workspaces: Vec<WorkspaceTemplateApply>,
    /// Desired workspace names that another owner uses: name and owner.
    pub name_conflicts: BTreeMap<String, String>,
    /// All other control planes.
    pub others: Vec<OtherControlPlane>,
    /// ARNs of EKS clusters without owner tag that an administrator has assigned to the namespace.
    pub adopted_arns: BTreeSet<String>,
    /// Whether a cluster needs the owner tag.
    pub requires_owner_tag: bool,
    /// The kubeconfig and CA Secrets.
    pub secrets: AccessSecrets,
    /// The AWS principal to use.
    pub principal: Result<Principal, IdentityUnavailable>,
}

/// The Cluster of the owner reference, if it exists with the same UID.
pub(crate) async fn owner_cluster(
    object: &CaptControlPlane,
    ctx: &Context,
) -> Result<Option<DynamicObject>, K8sError> {
    let Some(reference) = cluster::owner_cluster_ref(&object.metadata) else { return Ok(None) };
    let kind = cluster::cluster_resource(&ctx.cluster_version);
    let found = ctx.kube.get_dynamic(&kind, object.namespace().as_deref(), &reference.name).await?;
    Ok(found.filter(|found| found.metadata.uid.as_ref() == Some(&reference.uid)))
}

/// Reads the referenced and owned objects.
pub(crate) async fn dereference(
    object: &CaptControlPlane,
    owner: &DynamicObject,
    controller: &ControllerContext,
) -> Result<ControlPlaneReferences, K8sError> {
    let ctx = &*controller.common;
    let view = CapiClusterView::from_object(owner);
    let apply_name = build::apply_name(object);
    let (network, (eks, taken_eks), (profiles, mut taken), secrets, adopted) = tokio::try_join!(
        find_network(owner, ctx),
        find_own_workspace(object, &apply_name, ctx),
        list_profile_workspaces(object, &view.name, ctx),
        get_access_secrets(object, &view.name, ctx),
        read_adopted_arns(object, ctx),
    )?;
    taken.extend(taken_eks.map(|owner| (apply_name, owner)));
    let principal = resolve_acting_principal(object, network.as_ref(), ctx).await?;
    Ok(ControlPlaneReferences {
        cluster: view,
        network,
        eks_workspace: eks,
        profile_workspaces: profiles,
        name_conflicts: taken,
        others: controller.other_control_planes(object),
        adopted_arns: adopted,
        requires_owner_tag: ctx.settings.require_owner_tag,
        secrets,
        principal,
    })
}

/// The clusters that an administrator has assigned to the namespace. A built-in module tags its clusters, so that only
/// templates need it.
async fn read_adopted_arns(object: &CaptControlPlane, ctx: &Context) -> Result<BTreeSet<String>, K8sError> {
    if object.spec.workspace_template_ref.is_none() {
        return Ok(BTreeSet::new());
    }
    let home: Option<Namespace> = ctx.kube.get(None, &object.namespace().unwrap_or_default()).await?;
    let annotations = home.and_then(|home| home.metadata.annotations).unwrap_or_default();
    let text = annotations.get(words::ADOPT_EKS_CLUSTERS_ANNOTATION);
    Ok(text.map(|text| parse_adopted_arns(text)).unwrap_or_default())
}

/// The objects that a deletion still has to remove.
#[derive(Debug, Clone)]
pub(crate) struct RemainingObjects {
    /// Sandboxes that reference the cluster.
    pub sandboxes: Vec<ObjectMeta>,
    /// Router Services with a load balancer, or why they cannot be listed.
    pub load_balancers: Result<Vec<Service>, String>,
    /// The workspace of the EKS cluster.
    pub eks_workspace: Option<WorkspaceTemplateApply>,
    /// The workspaces of Fargate profiles.
    pub profile_workspaces: Vec<WorkspaceTemplateApply>,
    /// Secrets owned by the control plane.
    pub secrets: Vec<Secret>,
}

impl Default for RemainingObjects {
    fn default() -> Self {
        Self {
            sandboxes: Vec::new(),
            load_balancers: Ok(Vec::new()),
            eks_workspace: None,
            profile_workspaces: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

/// Reads the remaining objects, except those inside the cluster.
pub(crate) async fn find_remaining(
    object: &CaptControlPlane,
    ctx: &Context,
) -> Result<RemainingObjects, K8sError> {
    let family = OwningCluster::from_metadata(&object.metadata);
    let uid = object.uid().unwrap_or_default();
    let (eks, _) = find_own_workspace(object, &build::apply_name(object), ctx).await?;
    let Some(OwningCluster { name, .. }) = family else {
        return Ok(RemainingObjects { eks_workspace: eks, ..RemainingObjects::default() });
    };
    let ((profiles, _), found, sandboxes) = tokio::try_join!(
        list_profile_workspaces(object, &name, ctx),
        get_access_secrets(object, &name, ctx),
        list_sandboxes(object, &name, ctx),
    )?;
    let AccessSecrets { kubeconfig: programs, user_kubeconfig: people, ca: authority, legacy_ca: upstreams } =
        found;
    let ours = |secret: &Secret| secret.owner_references().iter().any(|it| it.uid == uid);
    let secrets = [programs, people, authority, upstreams].into_iter().flatten().filter(ours).collect();
    Ok(RemainingObjects {
        sandboxes,
        eks_workspace: eks,
        profile_workspaces: profiles,
        secrets,
        ..RemainingObjects::default()
    })
}

/// Sandboxes that reference this Cluster. One that cannot be decoded has created nothing.
async fn list_sandboxes(
    object: &CaptControlPlane,
    cluster: &str,
    ctx: &Context,
) -> Result<Vec<ObjectMeta>, K8sError> {
    if !ctx.settings.sandboxes {
        return Ok(Vec::new());
    }
    let all: Vec<DeserializeGuard<Sandbox>> = ctx.kube.list_if_served(object.namespace().as_deref()).await?;
    let here = invalid_object::filter_valid(all)
        .into_iter()
        .filter(|it| it.spec.cluster_ref.as_ref().is_some_and(|reference| reference.name == cluster));
    Ok(here.map(|it| it.metadata).collect())
}

/// The `CAPTCluster` that a Cluster references, if the Cluster owns it.
async fn find_network(owner: &DynamicObject, ctx: &Context) -> Result<Option<ClusterNetwork>, K8sError> {
    let home = owner.namespace();
    let reference = owner.data.pointer("/spec/infrastructureRef");
    let text = |key: &str| reference.and_then(|it| it.get(key)?.as_str());
    let found = match text("name").filter(|_| text("kind") == Some("CAPTCluster")) {
        Some(name) => valid_object(ctx.kube.get(home.as_deref(), name).await?),
        None => {
            let label = format!("{}={}", words::CLUSTER_NAME_LABEL, owner.name_any());
            let all: Vec<DeserializeGuard<CaptCluster>> = ctx.kube.list(home.as_deref(), &label).await?;
            all.into_iter().find_map(|it| it.0.ok())
        }
    };
    let belongs = |object: &CaptCluster| {
        cluster::owner_cluster_ref(&object.metadata)
            .is_some_and(|it| Some(&it.uid) == owner.metadata.uid.as_ref())
    };
    let Some(object) = found.filter(belongs) else { return Ok(None) };
    let apply = valid_object(ctx.kube.get(home.as_deref(), &ClusterNetwork::apply_name(&object)).await?);
    Ok(Some(ClusterNetwork { object, workspace: apply }))
}

/// The workspace of this name if it is ours, else its controller owner.
async fn find_own_workspace(
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

/// All profile workspaces of the control plane, and the names that other owners use.
async fn list_profile_workspaces(
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
    for profile in capt_model::model::fargate::desired_profiles(&object.spec) {
        let name = fargate::apply_name(object, &profile.name);
        if !known.contains(&name) {
            // It has no profile label, or another owner.
            let (ours, owner) = find_own_workspace(object, &name, ctx).await?;
            found.extend(ours);
            taken.extend(owner.map(|owner| (name, owner)));
        }
    }
    Ok((found, taken))
}

async fn get_access_secrets(
    object: &CaptControlPlane,
    cluster: &str,
    ctx: &Context,
) -> Result<AccessSecrets, K8sError> {
    let home = object.namespace();
    let get = |name: String| {
        let home = home.clone();
        async move { ctx.kube.get::<Secret>(home.as_deref(), &name).await }
    };
    let upstreams = names::ca_secret(&object.name_any());
    let (programs, people, authority, upstreams) = tokio::try_join!(
        get(names::kubeconfig_secret(cluster)),
        get(names::user_kubeconfig_secret(cluster)),
        get(names::ca_secret(cluster)),
        get(upstreams),
    )?;
    Ok(AccessSecrets { kubeconfig: programs, user_kubeconfig: people, ca: authority, legacy_ca: upstreams })
}

/// The principal: from the identity of the control plane, its network or its template; else the operator's own.
async fn resolve_acting_principal(
    object: &CaptControlPlane,
    network: Option<&ClusterNetwork>,
    ctx: &Context,
) -> Result<Result<Principal, IdentityUnavailable>, K8sError> {
    let home = object.namespace().unwrap_or_default();
    let own = object.spec.identity_ref.as_ref().map(|it| it.name.clone());
    let said = own.or_else(|| network.and_then(ClusterNetwork::identity_name));
    let named = match said {
        Some(name) => Some(name),
        None => template_identity(object, ctx).await?,
    };
    let required = ctx.settings.require_identity;
    let found = identity::resolve_principal(&ctx.kube, named.as_deref(), &home, required).await;
    match found {
        Err(IdentityError::ReadFailed { source, .. }) => Err(source),
        Err(error) => Ok(Err(IdentityUnavailable {
            is_failure: error.class() == capt_kube::error::ErrorClass::Invalid,
            message: error.full_message(),
        })),
        Ok(principal) => Ok(Ok(principal)),
    }
}

async fn template_identity(object: &CaptControlPlane, ctx: &Context) -> Result<Option<String>, K8sError> {
    let Some(reference) = &object.spec.workspace_template_ref else { return Ok(None) };
    let home = object.namespace().unwrap_or_default();
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(&home);
    let found: Option<Granted<DeserializeGuard<WorkspaceTemplate>>> =
        get_granted(&ctx.kube, &home, (namespace, &reference.name)).await?;
    Ok(valid_object(found.map(Granted::into_inner))
        .map(|template| template.spec.template.spec.provider_config_ref.name))
}

/// The object, unless it cannot be decoded.
fn valid_object<K: Resource + DeserializeOwned>(found: Option<DeserializeGuard<K>>) -> Option<K> {
    found.and_then(|it| it.0.ok())
}
