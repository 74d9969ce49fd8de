//! What a Sandbox is about and what was made for it. Reads, and decides nothing.

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
use sandbox::{
    api::{LocalWorkload, Sandbox, names},
    fork::fork_name,
};

use serde_json::Value;

use super::{context::Context, place::Place};
use crate::k8s::K8sError;

/// What forks are made from, and what stands around them.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    /// The Deployments that forks are made from and that local and virtual workloads stand for, as far as they exist.
    pub baselines: BTreeMap<String, DynamicObject>,
    /// The Services of the namespace, but for those of forks.
    pub services: Vec<Service>,
    /// The budgets of the namespace.
    pub budgets: Vec<PodDisruptionBudget>,
    /// The policies of the namespace.
    pub policies: Vec<NetworkPolicy>,
    /// The drivers of storage classes.
    pub provisioners: BTreeMap<String, String>,
    /// Whether the cluster has nodes that anybody can run on.
    pub has_nodes: bool,
}

impl Around {
    /// As the decisions want it, with the claims that forks would mount.
    pub(super) fn view<'a>(&'a self, claims: &'a [PersistentVolumeClaim]) -> sandbox::around::Around<'a> {
        sandbox::around::Around {
            services: &self.services,
            budgets: &self.budgets,
            policies: &self.policies,
            claims,
            provisioners: Some(&self.provisioners),
        }
    }
}

/// What was made for a Sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    /// Its Deployments.
    pub forks: Vec<DynamicObject>,
    /// Its Services.
    pub services: Vec<DynamicObject>,
}

/// A kind whose objects are read whole, with fields that this version of ours does not know.
pub(super) fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Everything of a Sandbox has this label.
pub(super) fn of_sandbox(object: &Sandbox) -> String {
    format!("{}={}", names::SANDBOX_LABEL, object.name_any())
}

/// The Deployments that a Sandbox is about.
pub(super) fn baselines_of(object: &Sandbox) -> BTreeSet<String> {
    let spec = &object.spec;
    let forks = spec.forks.iter().map(|it| &it.fork_of);
    let locals = spec.local.iter().map(|it| &it.from);
    let virtuals = spec.virtuals.iter().map(|it| &it.workload);
    forks.chain(locals).chain(virtuals).map(|it| it.name.clone()).collect()
}

/// Reads what is around a Sandbox.
pub(super) async fn around(object: &Sandbox, place: &Place) -> Result<Around, K8sError> {
    let (kube, home) = (&place.kube, place.spot.namespace.as_str());
    let unforked = format!("!{}", names::FORK_LABEL);
    let mut baselines = BTreeMap::new();
    for name in baselines_of(object) {
        if let Some(found) = kube.get_dynamic(&kind::<Deployment>(), Some(home), &name).await? {
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
    // One of a fork stays one of a fork, whatever became of its labels.
    services.retain(|it| owner(&it.metadata).is_none());
    let provisioners = classes.into_iter().map(|it| (it.name_any(), it.provisioner)).collect();
    Ok(Around { baselines, services, budgets, policies, provisioners, has_nodes })
}

/// Whether there are nodes. What the operator's cluster runs on is not ours to ask: its scheduler says if it finds no place.
async fn has_nodes(place: &Place) -> Result<bool, K8sError> {
    if place.profiles.is_none() {
        return Ok(true);
    }
    let nodes = place.kube.list_metadata::<Node>(None, "eks.amazonaws.com/compute-type!=fargate").await?;
    Ok(!nodes.is_empty())
}

/// The claims that these workloads mount, as far as they exist.
pub(super) async fn claims(
    place: &Place,
    workloads: impl Iterator<Item = &Value>,
) -> Result<Vec<PersistentVolumeClaim>, K8sError> {
    let volumes = workloads.filter_map(|it| it.pointer("/spec/template/spec/volumes")?.as_array());
    let names: BTreeSet<&str> =
        volumes.flatten().filter_map(|it| it.pointer("/persistentVolumeClaim/claimName")?.as_str()).collect();
    let mut found = Vec::new();
    for name in names {
        match place.kube.get(Some(&place.spot.namespace), name).await {
            Ok(claim) => found.extend(claim),
            Err(K8sError::NoKind { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Reads what was made for a Sandbox. Somebody else's object with our label is not ours.
pub(super) async fn made(object: &Sandbox, place: &Place) -> Result<Made, K8sError> {
    let (home, labels) = (Some(place.spot.namespace.as_str()), of_sandbox(object));
    let kinds = (kind::<Deployment>(), kind::<Service>());
    let (mut forks, mut services) = tokio::try_join!(
        place.kube.list_dynamic(&kinds.0, home, &labels),
        place.kube.list_dynamic(&kinds.1, home, &labels),
    )?;
    forks.retain(|it| is_ours(it, object));
    services.retain(|it| is_ours(it, object));
    // Somebody may have taken our label off.
    for fork in &object.spec.forks {
        let name = fork_name(&place.spot.namespace, &fork.fork_of.name, &object.name_any());
        if !forks.iter().any(|it| it.name_any() == name) {
            let found = place.kube.get_dynamic(&kinds.0, home, &name).await?;
            forks.extend(found.filter(|it| is_ours(it, object)));
        }
    }
    Ok(Made { forks, services })
}

/// The name of the Sandbox that an object was made for.
pub(super) fn owner(meta: &ObjectMeta) -> Option<&str> {
    let is_sandbox =
        |it: &&OwnerReference| it.kind == "Sandbox" && it.api_version.split('/').next() == Some(names::GROUP);
    meta.owner_references.iter().flatten().find(is_sandbox).map(|it| it.name.as_str())
}

/// Whether something was made for this very Sandbox.
pub(super) fn is_ours(it: &DynamicObject, object: &Sandbox) -> bool {
    it.owner_references().iter().any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
}

/// The local workloads that name a Sandbox, as they were seen last.
pub(super) async fn locals(object: &Sandbox, ctx: &Context) -> Result<Vec<DynamicObject>, K8sError> {
    let Some(known) = ctx.locals() else { return list_locals(object, ctx).await };
    let kind = kind::<LocalWorkload>();
    let home = object.namespace();
    let here = known.iter().filter(|it| it.metadata.namespace == home && is_of(it, object));
    let all = here.map(|it| {
        let mut one = it.as_ref().clone();
        // Items of a list do not say what they are.
        one.types = Some(TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() });
        one
    });
    Ok(all.collect())
}

/// The local workloads that name a Sandbox, as they are. Where nobody knows the kind there are none: it goes before Sandboxes do
/// when somebody uninstalls both.
pub(super) async fn list_locals(object: &Sandbox, ctx: &Context) -> Result<Vec<DynamicObject>, K8sError> {
    let home = object.namespace();
    let listed = ctx.common.kube.list_dynamic(&kind::<LocalWorkload>(), home.as_deref(), "").await;
    let mut all = match listed {
        Err(K8sError::NoKind { .. }) => Vec::new(),
        other => other?,
    };
    all.retain(|it| is_of(it, object));
    Ok(all)
}

fn is_of(local: &DynamicObject, object: &Sandbox) -> bool {
    let name = local.data.pointer("/spec/sandboxRef/name").and_then(Value::as_str);
    name.is_some() && name == object.metadata.name.as_deref()
}

/// The pods of a Sandbox, and what was told of them.
pub(super) async fn pods(object: &Sandbox, place: &Place) -> Result<(Vec<Pod>, Vec<Event>), K8sError> {
    let home = Some(place.spot.namespace.as_str());
    let pods: Vec<Pod> = place.kube.list(home, &of_sandbox(object)).await?;
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
