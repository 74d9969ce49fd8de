//! Reads the objects that a `CAPTCluster` references and those that depend on it. Makes no decisions.

use capt_kinds::{
    api::{CaptCluster, CaptControlPlane, SecretRef, WorkspaceTemplate, WorkspaceTemplateApply},
    grant::Granted,
};
use capt_kube::k8s::K8sError;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource as _, ResourceExt as _, core::DeserializeGuard};

use super::build::apply_name;
use crate::common::{
    Context,
    cluster::{self, CapiClusterView},
    granted_reader::get_granted,
    owning_cluster::OwningCluster,
};

/// Objects that a `CAPTCluster` references.
#[derive(Debug, Clone)]
pub(super) struct NetworkReferences {
    /// The owning Cluster.
    pub cluster: CapiClusterView,
    /// The control plane that the Cluster references.
    pub control_plane: Option<CaptControlPlane>,
    /// The network's workspace.
    pub apply: Option<WorkspaceTemplateApply>,
    /// Whether the template names a connection Secret; none without a template, or if it does not exist.
    pub template_names_secret: Option<bool>,
    /// VPC id from the connection Secret, for templates with a sensitive `vpc_id` output.
    pub hidden_vpc_id: Option<String>,
}

/// Objects that the deletion of a `CAPTCluster` depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct NetworkDeletionInputs {
    /// Control planes of the same Cluster.
    pub control_planes: Vec<String>,
    /// The network's workspace.
    pub apply: Option<WorkspaceTemplateApply>,
    /// All workspaces of the same namespace.
    pub workspaces: Vec<WorkspaceTemplateApply>,
}

/// The Cluster that the owner reference names, with a matching uid.
#[derive(Debug, Clone)]
pub(super) struct OwnerCluster {
    /// The Cluster.
    pub cluster: CapiClusterView,
    /// Name of the referenced control plane, if it is a `CAPTControlPlane`.
    pub control_plane: Option<String>,
}

/// Reads the owning Cluster; none if it does not exist or has another uid.
pub(super) async fn get_owner(object: &CaptCluster, ctx: &Context) -> Result<Option<OwnerCluster>, K8sError> {
    let Some(reference) = cluster::owner_cluster_ref(&object.metadata) else { return Ok(None) };
    let kind = cluster::cluster_resource(&ctx.cluster_version);
    let found = ctx.kube.get_dynamic(&kind, object.namespace().as_deref(), &reference.name).await?;
    let same = found.filter(|found| found.metadata.uid.as_ref() == Some(&reference.uid));
    Ok(same.map(|found| OwnerCluster {
        cluster: CapiClusterView::from_object(&found),
        control_plane: cluster::control_plane_name(&found).map(ToOwned::to_owned),
    }))
}

/// Reads the objects that a `CAPTCluster` references.
pub(super) async fn dereference(
    object: &CaptCluster,
    owner: OwnerCluster,
    ctx: &Context,
) -> Result<NetworkReferences, K8sError> {
    let home = object.namespace();
    let home = home.as_deref();
    let control_plane = match &owner.control_plane {
        Some(name) => valid_object(ctx.kube.get(home, name).await?),
        None => None,
    };
    let apply: Option<WorkspaceTemplateApply> = ctx.kube.get(home, &apply_name(object)).await?;
    let template_names_secret = does_template_name_secret(object, ctx).await?;
    let hidden_vpc_id = match &apply {
        Some(apply) => read_hidden_vpc_id(apply, ctx).await?,
        None => None,
    };
    Ok(NetworkReferences {
        cluster: owner.cluster,
        control_plane,
        apply,
        template_names_secret,
        hidden_vpc_id,
    })
}

/// Reads the objects that the deletion depends on.
pub(super) async fn dereference_for_deletion(
    object: &CaptCluster,
    ctx: &Context,
) -> Result<NetworkDeletionInputs, K8sError> {
    let home = object.namespace();
    let home = home.as_deref();
    let family = OwningCluster::from_metadata(&object.metadata);
    // A control plane that does not deserialize still blocks the deletion.
    let control_planes: Vec<DeserializeGuard<CaptControlPlane>> = ctx.kube.list(home, "").await?;
    let ours = |it: &&DeserializeGuard<CaptControlPlane>| {
        family.as_ref().is_some_and(|family| family.owns(it.meta()))
    };
    let neighbours: Vec<DeserializeGuard<WorkspaceTemplateApply>> = ctx.kube.list(home, "").await?;
    Ok(NetworkDeletionInputs {
        control_planes: control_planes.iter().filter(ours).map(kube::ResourceExt::name_any).collect(),
        // Read strictly: a workspace that does not deserialize must not count as deleted.
        apply: ctx.kube.get(home, &apply_name(object)).await?,
        workspaces: neighbours.into_iter().filter_map(|it| it.0.ok()).collect(),
    })
}

fn valid_object<K>(found: Option<DeserializeGuard<K>>) -> Option<K> {
    found.and_then(|it| it.0.ok())
}

async fn does_template_name_secret(object: &CaptCluster, ctx: &Context) -> Result<Option<bool>, K8sError> {
    let Some(reference) = &object.spec.vpc_template_ref else { return Ok(None) };
    let home = object.namespace().unwrap_or_default();
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(&home);
    let found: Option<Granted<DeserializeGuard<WorkspaceTemplate>>> =
        get_granted(&ctx.kube, &home, (namespace, &reference.name)).await?;
    Ok(valid_object(found.map(Granted::into_inner))
        .map(|it| it.spec.template.spec.write_connection_secret_to_ref.is_some()))
}

/// Sensitive outputs are in the connection Secret only, not in the status.
async fn read_hidden_vpc_id(
    apply: &WorkspaceTemplateApply,
    ctx: &Context,
) -> Result<Option<String>, K8sError> {
    let status = apply.status.as_ref();
    // An output in the status is not sensitive, whatever its type.
    let is_seen = status.is_some_and(|status| status.outputs.contains_key("vpc_id"));
    let secret = status.and_then(|status| status.connection_secret_ref.as_ref()).filter(|_| !is_seen);
    let Some(SecretRef { name, namespace }) = secret else { return Ok(None) };
    let home = apply.namespace().unwrap_or_default();
    let found: Option<Granted<Secret>> = get_granted(&ctx.kube, &home, (namespace, name)).await?;
    let bytes = found.and_then(|secret| secret.into_inner().data?.remove("vpc_id"));
    let text = bytes.and_then(|bytes| String::from_utf8(bytes.0).ok());
    // Values other than strings are JSON-encoded in the Secret.
    Ok(text.filter(|text| !text.is_empty() && !text.starts_with(['[', '{', '"'])))
}
