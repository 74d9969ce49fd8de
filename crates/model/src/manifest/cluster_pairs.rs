//! Pairs each `CAPTCluster` with its `CAPTControlPlane`.
//!
//! A Cluster pairs them by its references. Without one, objects of one namespace with the same cluster-name label, or else
//! the same name, are paired.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::model::{ObjectKey, Parse as _, Problem, newtypes::ObjectName};

use super::{
    error::{FieldError, ManifestWarning},
    foreign_kinds::{Cluster, ObjectRef},
    load::{LoadedObject, Manifests},
};

/// A network and a control plane, or one of them.
#[derive(Debug, Default)]
pub(super) struct ClusterPair {
    pub(super) network: Option<ObjectKey>,
    pub(super) control_plane: Option<ObjectKey>,
    pub(super) paused: bool,
}

/// Pairs by cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterPairs {
    pub(super) by_cluster: BTreeMap<ObjectKey, ClusterPair>,
    pub(super) errors: Vec<FieldError>,
    pub(super) warnings: Vec<ManifestWarning>,
}

pub(super) fn pair_clusters(manifests: &Manifests) -> ClusterPairs {
    let mut pairs = ClusterPairs::default();
    let mut claimed = BTreeSet::new();
    for (key, cluster) in &manifests.clusters {
        let pair = pair_by_reference(manifests, key, cluster, &mut pairs);
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
                Some(other) => pairs.errors.push(duplicate_member(loaded, &object, &cluster, other)),
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
                Some(other) => pairs.errors.push(duplicate_member(loaded, &object, &cluster, other)),
            }
        }
    }
    pairs
}

fn pair_by_reference(
    manifests: &Manifests,
    key: &ObjectKey,
    cluster: &LoadedObject<Cluster>,
    pairs: &mut ClusterPairs,
) -> ClusterPair {
    let spec = &cluster.object.spec;
    let object = format!("Cluster {key}");
    let warn = |message: String| ManifestWarning {
        origin: cluster.origin.clone(),
        message: format!("{object}: {message}"),
    };
    if spec.topology.is_some() {
        pairs.warnings.push(warn(
            "spec.topology requires Cluster API and is ignored; only the references are used".to_owned(),
        ));
    }
    let mut follow = |field: &str, reference: Option<&ObjectRef>, group: &str, kind: &str| {
        let reference = reference?;
        if reference.group() != group || reference.kind != kind {
            pairs.warnings.push(warn(format!(
                "spec.{field} refers to a {}, which is not a kind of capt",
                reference.kind
            )));
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
                message: format!("{kind} {namespace}/{} is not in the manifests", reference.name),
                remedy: "add it, or correct the reference".to_owned(),
            };
            pairs.errors.push(FieldError::new(&cluster.origin, &object, problem));
        }
        found
    };
    let infrastructure = spec.infrastructure_ref.as_ref();
    let network = follow("infrastructureRef", infrastructure, names::INFRASTRUCTURE_GROUP, "CAPTCluster");
    let control = spec.control_plane_ref.as_ref();
    let control_plane = follow("controlPlaneRef", control, names::CONTROL_PLANE_GROUP, "CAPTControlPlane");
    ClusterPair { network, control_plane, paused: spec.paused }
}

/// The cluster of an object, by label or name.
fn cluster_of(key: &ObjectKey, metadata: &ObjectMeta) -> ObjectKey {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(names::CLUSTER_NAME_LABEL));
    let name = label.and_then(|label| ObjectName::parse(label).ok()).unwrap_or_else(|| key.name.clone());
    ObjectKey { namespace: key.namespace.clone(), name }
}

fn duplicate_member<T>(
    loaded: &LoadedObject<T>,
    object: &str,
    cluster: &ObjectKey,
    other: &ObjectKey,
) -> FieldError {
    let problem = Problem {
        path: format!("metadata.labels[{:?}]", names::CLUSTER_NAME_LABEL),
        message: format!("cluster {cluster} already has {other}"),
        remedy: "use the label of another cluster, or remove the object".to_owned(),
    };
    FieldError::new(&loaded.origin, object, problem)
}
