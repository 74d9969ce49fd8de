//! What a `CAPTCluster` refers to, and what refers to it. Reads, and decides nothing.

use k8s_openapi::api::core::v1::Secret;
use kube::{Resource as _, ResourceExt as _, core::DeserializeGuard};

use super::build::apply_name;
use crate::{
    api::{CaptCluster, CaptControlPlane, SecretRef, WorkspaceTemplate, WorkspaceTemplateApply},
    controllers::common::{
        Context,
        cluster::{self, ClusterView},
        family::Family,
    },
    k8s::K8sError,
};

/// What a `CAPTCluster` that is looked after refers to.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The Cluster that owns it.
    pub cluster: ClusterView,
    /// The control plane that the Cluster names.
    pub control_plane: Option<CaptControlPlane>,
    /// The workspace of the network.
    pub apply: Option<WorkspaceTemplateApply>,
    /// Whether the template names a Secret for its outputs; none if there is no template, or it is not there.
    pub template_names_secret: Option<bool>,
    /// The VPC's id in the workspace's Secret, for templates that hide it.
    pub hidden_vpc_id: Option<String>,
}

/// What is left of a cluster that goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Remains {
    /// Control planes of the same Cluster.
    pub control_planes: Vec<String>,
    /// The workspace of the network.
    pub apply: Option<WorkspaceTemplateApply>,
    /// All workspaces of the same namespace.
    pub neighbours: Vec<WorkspaceTemplateApply>,
}

/// The Cluster that an object's owner reference names, if it is there and the same.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    /// The Cluster.
    pub view: ClusterView,
    /// Name of the control plane that it refers to, if that is one of ours.
    pub control_plane: Option<String>,
}

/// Reads the owner.
pub(super) async fn owner(object: &CaptCluster, ctx: &Context) -> Result<Option<Owner>, K8sError> {
    let Some(reference) = cluster::owner(&object.metadata) else { return Ok(None) };
    let kind = cluster::resource(&ctx.cluster_version);
    let found = ctx.kube.get_dynamic(&kind, object.namespace().as_deref(), &reference.name).await?;
    let same = found.filter(|found| found.metadata.uid.as_ref() == Some(&reference.uid));
    Ok(same.map(|found| Owner {
        view: ClusterView::of(&found),
        control_plane: cluster::control_plane_ref(&found).map(ToOwned::to_owned),
    }))
}

/// Reads what a `CAPTCluster` refers to.
pub(super) async fn look(object: &CaptCluster, owner: Owner, ctx: &Context) -> Result<Seen, K8sError> {
    let home = object.namespace();
    let home = home.as_deref();
    let control_plane = match &owner.control_plane {
        Some(name) => readable(ctx.kube.get(home, name).await?),
        None => None,
    };
    let apply: Option<WorkspaceTemplateApply> = ctx.kube.get(home, &apply_name(object)).await?;
    let template_names_secret = template_names_secret(object, ctx).await?;
    let hidden_vpc_id = match &apply {
        Some(apply) => hidden_vpc_id(apply, ctx).await?,
        None => None,
    };
    Ok(Seen { cluster: owner.view, control_plane, apply, template_names_secret, hidden_vpc_id })
}

/// Reads what is left of the cluster that a `CAPTCluster` belongs to.
pub(super) async fn remains(object: &CaptCluster, ctx: &Context) -> Result<Remains, K8sError> {
    let home = object.namespace();
    let home = home.as_deref();
    let family = Family::of(&object.metadata);
    // A control plane that cannot be read is there all the same.
    let control_planes: Vec<DeserializeGuard<CaptControlPlane>> = ctx.kube.list(home, "").await?;
    let ours = |it: &&DeserializeGuard<CaptControlPlane>| {
        family.as_ref().is_some_and(|family| family.has(it.meta()))
    };
    let neighbours: Vec<DeserializeGuard<WorkspaceTemplateApply>> = ctx.kube.list(home, "").await?;
    Ok(Remains {
        control_planes: control_planes.iter().filter(ours).map(kube::ResourceExt::name_any).collect(),
        // Its own one must be read: whoever cannot read it must not think that it is gone.
        apply: ctx.kube.get(home, &apply_name(object)).await?,
        neighbours: neighbours.into_iter().filter_map(|it| it.0.ok()).collect(),
    })
}

fn readable<K>(found: Option<DeserializeGuard<K>>) -> Option<K> {
    found.and_then(|it| it.0.ok())
}

async fn template_names_secret(object: &CaptCluster, ctx: &Context) -> Result<Option<bool>, K8sError> {
    let Some(reference) = &object.spec.vpc_template_ref else { return Ok(None) };
    let namespace = reference.namespace.clone().or_else(|| object.namespace());
    let found: Option<DeserializeGuard<WorkspaceTemplate>> =
        ctx.kube.get(namespace.as_deref(), &reference.name).await?;
    Ok(readable(found).map(|it| it.spec.template.spec.write_connection_secret_to_ref.is_some()))
}

/// A template may call all its outputs sensitive; then only the Secret has them.
async fn hidden_vpc_id(apply: &WorkspaceTemplateApply, ctx: &Context) -> Result<Option<String>, K8sError> {
    let status = apply.status.as_ref();
    // One that everybody may see is not hidden, of whatever type it is.
    let is_seen = status.is_some_and(|status| status.outputs.contains_key("vpc_id"));
    let secret = status.and_then(|status| status.connection_secret_ref.as_ref()).filter(|_| !is_seen);
    let Some(SecretRef { name, namespace }) = secret else { return Ok(None) };
    let found: Option<Secret> = ctx.kube.get(Some(namespace), name).await?;
    let bytes = found.and_then(|secret| secret.data?.remove("vpc_id"));
    let text = bytes.and_then(|bytes| String::from_utf8(bytes.0).ok());
    // Anything else than a text is JSON there.
    Ok(text.filter(|text| !text.is_empty() && !text.starts_with(['[', '{', '"'])))
}
