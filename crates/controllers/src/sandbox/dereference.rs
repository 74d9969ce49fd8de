//! Dereferences a Sandbox: baselines, namespace objects, owned objects, local workloads, pods. Read only, decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Event, Node, PersistentVolumeClaim, Pod, Service},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Resource, ResourceExt as _,
    core::{ApiResource, DynamicObject, ObjectMeta, TypeMeta},
};
use sandbox::fork::fork_name;

use capt_kinds::sandbox::{LocalWorkload, Sandbox, names};
use capt_kube::k8s::K8sError;
use serde_json::Value;

use super::{context::Context, fork_target::ForkTarget};

/// The baselines of the forks, and the objects of their namespace that affect them.
#[derive(Debug, Clone, Default)]
pub(super) struct NamespaceObjects {
    /// The existing Deployments that forks, local workloads and virtual workloads refer to.
    pub baselines: BTreeMap<String, DynamicObject>,
    /// The Services of the namespace, without those of forks.
    pub services: Vec<Service>,
    /// The `PodDisruptionBudgets` of the namespace.
    pub budgets: Vec<PodDisruptionBudget>,
    /// The `NetworkPolicies` of the namespace.
    pub policies: Vec<NetworkPolicy>,
    /// Provisioners by `StorageClass` name.
    pub provisioners: BTreeMap<String, String>,
    /// Whether the cluster has nodes other than Fargate's.
    pub has_nodes: bool,
}

impl NamespaceObjects {
    /// Borrowed as the crate `sandbox` takes it, with the claims that the forks would mount.
    pub(super) fn as_context<'a>(
        &'a self,
        claims: &'a [PersistentVolumeClaim],
    ) -> sandbox::namespace_context::NamespaceContext<'a> {
        sandbox::namespace_context::NamespaceContext {
            services: &self.services,
            budgets: &self.budgets,
            policies: &self.policies,
            claims,
            provisioners: Some(&self.provisioners),
        }
    }
}

/// The objects that a Sandbox owns.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnedObjects {
    /// Its Deployments.
    pub forks: Vec<DynamicObject>,
    /// Its Services.
    pub services: Vec<DynamicObject>,
}

/// The `ApiResource` of a kind. Objects are read as [`DynamicObject`], which keeps fields that our types do not know.
pub(super) fn api_resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Label selector of the objects of a Sandbox.
pub(super) fn sandbox_selector(object: &Sandbox) -> String {
    format!("{}={}", names::SANDBOX_LABEL, object.name_any())
}

/// The names of the Deployments that a Sandbox refers to.
pub(super) fn baseline_names(object: &Sandbox) -> BTreeSet<String> {
    let spec = &object.spec;
    let forks = spec.forks.iter().map(|it| &it.fork_of);
    let locals = spec.local.iter().map(|it| &it.from);
    let virtuals = spec.virtuals.iter().map(|it| &it.workload);
    forks.chain(locals).chain(virtuals).map(|it| it.name.clone()).collect()
}

/// Reads the baselines and the namespace objects of a Sandbox.
pub(super) async fn read_namespace(
    object: &Sandbox,
    place: &ForkTarget,
) -> Result<NamespaceObjects, K8sError> {
    let (kube, home) = (&place.kube, place.location.namespace.as_str());
    let unforked = format!("!{}", names::FORK_LABEL);
    let mut baselines = BTreeMap::new();
    for name in baseline_names(object) {
        if let Some(found) = kube.get_dynamic(&api_resource::<Deployment>(), Some(home), &name).await? {
            baselines.insert(name, found);
        }
    }
    let (mut services, budgets, policies, classes, has_nodes) = tokio::try_join!(
        kube.list::<Service>(Some(home), &unforked),
        kube.list_if_served::<PodDisruptionBudget>(Some(home)),
        kube.list_if_served::<NetworkPolicy>(Some(home)),
        kube.list_if_served::<StorageClass>(None),
        has_nodes(place),
    )?;
    // A Service of a fork is recognized by its owner reference even if its labels were removed.
    services.retain(|it| owning_sandbox(&it.metadata).is_none());
    let provisioners = classes.into_iter().map(|it| (it.name_any(), it.provisioner)).collect();
    Ok(NamespaceObjects { baselines, services, budgets, policies, provisioners, has_nodes })
}

/// Whether there are nodes. Not checked in the management cluster, where the operator may not list nodes: its scheduler reports
/// pods that do not fit.
async fn has_nodes(place: &ForkTarget) -> Result<bool, K8sError> {
    if place.fargate_profiles.is_none() {
        return Ok(true);
    }
    let nodes = place.kube.list_metadata::<Node>(None, "eks.amazonaws.com/compute-type!=fargate").await?;
    Ok(!nodes.is_empty())
}

/// The existing persistent volume claims that these workloads mount.
pub(super) async fn read_claims(
    place: &ForkTarget,
    workloads: impl Iterator<Item = &Value>,
) -> Result<Vec<PersistentVolumeClaim>, K8sError> {
    let volumes = workloads.filter_map(|it| it.pointer("/spec/template/spec/volumes")?.as_array());
    let names: BTreeSet<&str> =
        volumes.flatten().filter_map(|it| it.pointer("/persistentVolumeClaim/claimName")?.as_str()).collect();
    let mut found = Vec::new();
    for name in names {
        match place.kube.get(Some(&place.location.namespace), name).await {
            Ok(claim) => found.extend(claim),
            Err(K8sError::NoKind { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Lists the Deployments and Services that a Sandbox owns. The owner reference decides, not the label.
pub(super) async fn list_owned(object: &Sandbox, place: &ForkTarget) -> Result<OwnedObjects, K8sError> {
    let (home, labels) = (Some(place.location.namespace.as_str()), sandbox_selector(object));
    let kinds = (api_resource::<Deployment>(), api_resource::<Service>());
    let (mut forks, mut services) = tokio::try_join!(
        place.kube.list_dynamic(&kinds.0, home, &labels),
        place.kube.list_dynamic(&kinds.1, home, &labels),
    )?;
    forks.retain(|it| is_owned_by(it, object));
    services.retain(|it| is_owned_by(it, object));
    // The label may have been removed; look the fork up by name.
    for fork in &object.spec.forks {
        let name = fork_name(&place.location.namespace, &fork.fork_of.name, &object.name_any());
        if !forks.iter().any(|it| it.name_any() == name) {
            let found = place.kube.get_dynamic(&kinds.0, home, &name).await?;
            forks.extend(found.filter(|it| is_owned_by(it, object)));
        }
    }
    Ok(OwnedObjects { forks, services })
}

/// The name of the Sandbox in the owner references of an object.
pub(super) fn owning_sandbox(meta: &ObjectMeta) -> Option<&str> {
    let is_sandbox =
        |it: &&OwnerReference| it.kind == "Sandbox" && it.api_version.split('/').next() == Some(names::GROUP);
    meta.owner_references.iter().flatten().find(is_sandbox).map(|it| it.name.as_str())
}

/// Whether an object is owned by this Sandbox, compared by uid.
pub(super) fn is_owned_by(it: &DynamicObject, object: &Sandbox) -> bool {
    it.owner_references().iter().any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
}

/// The local workloads that refer to a Sandbox, from the cache; listed if the cache is not synced.
pub(super) async fn local_workloads(object: &Sandbox, ctx: &Context) -> Result<Vec<DynamicObject>, K8sError> {
    let Some(known) = ctx.local_workloads() else { return list_local_workloads(object, ctx).await };
    let kind = api_resource::<LocalWorkload>();
    let home = object.namespace();
    let here = known.iter().filter(|it| it.metadata.namespace == home && references_sandbox(it, object));
    let all = here.map(|it| {
        let mut one = it.as_ref().clone();
        // List items carry no apiVersion and kind.
        one.types = Some(TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() });
        one
    });
    Ok(all.collect())
}

/// The local workloads that refer to a Sandbox, from the API server. None if the kind is not served: an uninstall may delete its
/// CRD before that of Sandbox.
pub(super) async fn list_local_workloads(
    object: &Sandbox,
    ctx: &Context,
) -> Result<Vec<DynamicObject>, K8sError> {
    let home = object.namespace();
    let listed = ctx.common.kube.list_dynamic(&api_resource::<LocalWorkload>(), home.as_deref(), "").await;
    let mut all = match listed {
        Err(K8sError::NoKind { .. }) => Vec::new(),
        other => other?,
    };
    all.retain(|it| references_sandbox(it, object));
    Ok(all)
}

fn references_sandbox(local: &DynamicObject, object: &Sandbox) -> bool {
    let name = local.data.pointer("/spec/sandboxRef/name").and_then(Value::as_str);
    name.is_some() && name == object.metadata.name.as_deref()
}

/// The pods of a Sandbox, and the events of those that are not ready.
pub(super) async fn list_pods_and_events(
    object: &Sandbox,
    place: &ForkTarget,
) -> Result<(Vec<Pod>, Vec<Event>), K8sError> {
    let home = Some(place.location.namespace.as_str());
    let pods: Vec<Pod> = place.kube.list(home, &sandbox_selector(object)).await?;
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
        conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    let mut told = Vec::new();
    for pod in pods.iter().filter(|it| !is_ready(it)) {
        let of_pod = format!("involvedObject.uid={}", pod.uid().unwrap_or_default());
        told.extend(place.kube.list_by_field::<Event>(home, &of_pod).await?);
    }
    Ok((pods, told))
}
