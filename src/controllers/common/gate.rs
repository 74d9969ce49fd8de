//! Whether an object is to be worked on at all. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cluster::{ClusterView, owner};
use crate::api::names;

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Go on.
    Open,
    /// Another operator looks after it: not even its status is touched.
    NotOurs,
    /// It waits for its Cluster.
    WaitingForOwner,
    /// Somebody wants it left alone.
    Paused,
    /// It goes to another management cluster; what it made stays.
    Moving,
}

/// Whether an object that must belong to a Cluster may be worked on. `cluster` is the one that its owner reference
/// names, if it exists and has the same uid.
pub fn gate(meta: &ObjectMeta, cluster: Option<&ClusterView>, watch_filter: Option<&str>) -> Gate {
    if !passes(meta, watch_filter) {
        return Gate::NotOurs;
    }
    let deleting = meta.deletion_timestamp.is_some();
    if deleting && has_annotation(meta, names::DELETE_FOR_MOVE_ANNOTATION) {
        return Gate::Moving;
    }
    if is_paused(meta, cluster) {
        return Gate::Paused;
    }
    // A deletion goes on without the Cluster, which may be gone already.
    if cluster.is_none() && !deleting {
        return Gate::WaitingForOwner;
    }
    Gate::Open
}

/// Whether the operator was told to look after such objects.
pub fn passes(meta: &ObjectMeta, watch_filter: Option<&str>) -> bool {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(names::WATCH_FILTER_LABEL));
    watch_filter.is_none_or(|wanted| label.is_some_and(|label| label == wanted))
}

/// Whether somebody else manages an infrastructure cluster. The contract's text says label, its code annotation.
pub fn is_managed_elsewhere(meta: &ObjectMeta) -> bool {
    let labelled =
        meta.labels.as_ref().is_some_and(|labels| labels.contains_key(names::MANAGED_BY_ANNOTATION));
    labelled || has_annotation(meta, names::MANAGED_BY_ANNOTATION)
}

/// Whether an object, or the Cluster that it belongs to, is to be left alone.
pub fn is_paused(meta: &ObjectMeta, cluster: Option<&ClusterView>) -> bool {
    has_annotation(meta, names::PAUSED_ANNOTATION) || cluster.is_some_and(|cluster| cluster.paused)
}

/// Whether a Cluster is the one that an object's owner reference means.
pub fn is_owner(meta: &ObjectMeta, cluster: &ClusterView) -> bool {
    owner(meta).is_some_and(|it| it.name == cluster.name && it.uid == cluster.uid)
}

/// Whether an annotation is there, whatever its value.
pub fn has_annotation(meta: &ObjectMeta, name: &str) -> bool {
    meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn cluster(paused: bool) -> ClusterView {
        ClusterView {
            namespace: "team".to_owned(),
            name: "demo".to_owned(),
            uid: "u1".to_owned(),
            paused,
            deleting: false,
            infrastructure_provisioned: false,
            endpoint: None,
            region: None,
        }
    }

    fn annotated(name: &str) -> ObjectMeta {
        ObjectMeta {
            annotations: Some(BTreeMap::from([(name.to_owned(), String::new())])),
            ..ObjectMeta::default()
        }
    }

    fn deleted(mut meta: ObjectMeta) -> ObjectMeta {
        meta.deletion_timestamp = Some(Time(terraform_driver::clock::now()));
        meta
    }

    #[test]
    fn nothing_happens_before_a_cluster_owns_the_object() {
        assert_eq!(gate(&ObjectMeta::default(), None, None), Gate::WaitingForOwner);
        assert_eq!(gate(&ObjectMeta::default(), Some(&cluster(false)), None), Gate::Open);
    }

    #[test]
    fn a_pause_counts_also_while_deleting() {
        assert_eq!(gate(&ObjectMeta::default(), Some(&cluster(true)), None), Gate::Paused);
        assert_eq!(gate(&annotated(names::PAUSED_ANNOTATION), Some(&cluster(false)), None), Gate::Paused);
        assert_eq!(gate(&deleted(annotated(names::PAUSED_ANNOTATION)), None, None), Gate::Paused);
    }

    #[test]
    fn a_deletion_goes_on_without_its_cluster() {
        assert_eq!(gate(&deleted(ObjectMeta::default()), None, None), Gate::Open);
    }

    #[test]
    fn what_clusterctl_moves_away_is_not_destroyed() {
        assert_eq!(gate(&deleted(annotated(names::DELETE_FOR_MOVE_ANNOTATION)), None, None), Gate::Moving);
    }

    #[test]
    fn a_filter_lets_only_its_own_objects_through() {
        let mut meta = ObjectMeta::default();
        assert_eq!(gate(&meta, Some(&cluster(false)), Some("blue")), Gate::NotOurs);
        meta.labels = Some(BTreeMap::from([(names::WATCH_FILTER_LABEL.to_owned(), "blue".to_owned())]));
        assert_eq!(gate(&meta, Some(&cluster(false)), Some("blue")), Gate::Open);
    }
}
