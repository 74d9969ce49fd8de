//! Which network and which EKS cluster belong together.
//!
//! A Cluster says so by its references. Without one, a `CAPTCluster` and a `CAPTControlPlane` of one namespace belong
//! together if their cluster-name label, or else their name, is the same.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    api::names,
    model::{ObjectKey, Parse as _, Problem, text::ObjectName},
};

use super::{
    core::{Cluster, ObjectRef},
    error::{FieldError, Warning},
    load::{Loaded, Manifests},
};

/// A network and an EKS cluster, or one of them.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) network: Option<ObjectKey>,
    pub(super) control_plane: Option<ObjectKey>,
    pub(super) paused: bool,
}

/// Pairs by the name of their cluster.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) by_cluster: BTreeMap<ObjectKey, Pair>,
    pub(super) errors: Vec<FieldError>,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn pairs(manifests: &Manifests) -> Pairs {
    let mut pairs = Pairs::default();
    let mut claimed = BTreeSet::new();
    for (key, cluster) in &manifests.clusters {
        let pair = by_reference(manifests, key, cluster, &mut pairs);
        claimed.extend(pair.network.clone().map(|key| ("network", key)));
        claimed.extend(pair.control_plane.clone().map(|key| ("control plane", key)));
        pairs.by_cluster.insert(key.clone(), pair);
    }
    for (key, loaded) in &manifests.capt_clusters {
        if !claimed.contains(&("network", key.clone())) {
            let (cluster, object) = (cluster_of(key, &loaded.object.metadata), format!("CAPTCluster {key}"));
            let pair = pairs.by_cluster.entry(cluster.clone()).or_default();
            match &pair.network {
                None => pair.network = Some(key.clone()),
                Some(other) => pairs.errors.push(second(loaded, &object, &cluster, other)),
            }
        }
    }
    for (key, loaded) in &manifests.control_planes {
        if !claimed.contains(&("control plane", key.clone())) {
            let (cluster, object) =
                (cluster_of(key, &loaded.object.metadata), format!("CAPTControlPlane {key}"));
            let pair = pairs.by_cluster.entry(cluster.clone()).or_default();
            match &pair.control_plane {
                None => pair.control_plane = Some(key.clone()),
                Some(other) => pairs.errors.push(second(loaded, &object, &cluster, other)),
            }
        }
    }
    pairs
}

fn by_reference(
    manifests: &Manifests,
    key: &ObjectKey,
    cluster: &Loaded<Cluster>,
    pairs: &mut Pairs,
) -> Pair {
    let spec = &cluster.object.spec;
    let object = format!("Cluster {key}");
    let warn =
        |message: String| Warning { origin: cluster.origin.clone(), message: format!("{object}: {message}") };
    if spec.topology.is_some() {
        pairs
            .warnings
            .push(warn("spec.topology needs Cluster API; only its references are followed".to_owned()));
    }
    let mut follow = |field: &str, reference: Option<&ObjectRef>, group: &str, kind: &str| {
        let reference = reference?;
        if reference.group() != group || reference.kind != kind {
            pairs
                .warnings
                .push(warn(format!("spec.{field} names a {}, which is not capt's", reference.kind)));
            return None;
        }
        let namespace = reference.namespace.as_deref().unwrap_or(key.namespace.as_str());
        let target = ObjectKey::parse(namespace, &reference.name).ok();
        let found = target.filter(|target| match kind {
            "CAPTCluster" => manifests.capt_clusters.contains_key(target),
            _ => manifests.control_planes.contains_key(target),
        });
        if found.is_none() {
            let problem = Problem {
                path: format!("spec.{field}"),
                message: format!("{kind} {namespace}/{} is in none of the files", reference.name),
                remedy: "add its file, or correct the reference".to_owned(),
            };
            pairs.errors.push(FieldError::new(&cluster.origin, &object, problem));
        }
        found
    };
    let infrastructure = spec.infrastructure_ref.as_ref();
    let network = follow("infrastructureRef", infrastructure, names::INFRASTRUCTURE_GROUP, "CAPTCluster");
    let control = spec.control_plane_ref.as_ref();
    let control_plane = follow("controlPlaneRef", control, names::CONTROL_PLANE_GROUP, "CAPTControlPlane");
    Pair { network, control_plane, paused: spec.paused }
}

/// The cluster an object says it belongs to.
fn cluster_of(key: &ObjectKey, metadata: &ObjectMeta) -> ObjectKey {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(names::CLUSTER_NAME_LABEL));
    let name = label.and_then(|label| ObjectName::parse(label).ok()).unwrap_or_else(|| key.name.clone());
    ObjectKey { namespace: key.namespace.clone(), name }
}

fn second<T>(loaded: &Loaded<T>, object: &str, cluster: &ObjectKey, other: &ObjectKey) -> FieldError {
    let problem = Problem {
        path: format!("metadata.labels[{:?}]", names::CLUSTER_NAME_LABEL),
        message: format!("cluster {cluster} has {other} already"),
        remedy: "give it the label of another cluster, or remove it".to_owned(),
    };
    FieldError::new(&loaded.origin, object, problem)
}
