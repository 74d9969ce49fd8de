//! Decides whether an object is reconciled: watch filter, pause, owner, `clusterctl move`. Pure.

use capt_kinds::api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cluster::{CapiClusterView, owner_cluster_ref};

/// Result of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconcileGate {
    /// Reconcile.
    Proceed,
    /// Another operator manages it: nothing is written, not even its status.
    FilteredOut,
    /// No Cluster owns it yet.
    WaitingForOwner,
    /// It or its Cluster is paused.
    Paused,
    /// `clusterctl move` deletes it here; its cloud resources stay.
    Moving,
}

/// Evaluates the gate for an object that a Cluster must own. `cluster` is the Cluster of its owner reference, if it exists with
/// the same UID.
pub fn evaluate(
    meta: &ObjectMeta,
    cluster: Option<&CapiClusterView>,
    watch_filter: Option<&str>,
) -> ReconcileGate {
    if !matches_watch_filter(meta, watch_filter) {
        return ReconcileGate::FilteredOut;
    }
    let deleting = meta.deletion_timestamp.is_some();
    if deleting && has_annotation(meta, names::DELETE_FOR_MOVE_ANNOTATION) {
        return ReconcileGate::Moving;
    }
    if is_paused(meta, cluster) {
        return ReconcileGate::Paused;
    }
    // A deletion continues without the Cluster, which may be deleted already.
    if cluster.is_none() && !deleting {
        return ReconcileGate::WaitingForOwner;
    }
    ReconcileGate::Proceed
}

/// Whether the object has the watch-filter label value that this operator is restricted to.
pub fn matches_watch_filter(meta: &ObjectMeta, watch_filter: Option<&str>) -> bool {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(names::WATCH_FILTER_LABEL));
    watch_filter.is_none_or(|wanted| label.is_some_and(|label| label == wanted))
}

/// Whether an infrastructure cluster is externally managed. The text of the Cluster API contract says label, its code uses an
/// annotation; both count.
pub fn is_externally_managed(meta: &ObjectMeta) -> bool {
    let labelled =
        meta.labels.as_ref().is_some_and(|labels| labels.contains_key(names::MANAGED_BY_ANNOTATION));
    labelled || has_annotation(meta, names::MANAGED_BY_ANNOTATION)
}

/// Whether an object or its Cluster is paused.
pub fn is_paused(meta: &ObjectMeta, cluster: Option<&CapiClusterView>) -> bool {
    has_annotation(meta, names::PAUSED_ANNOTATION) || cluster.is_some_and(|cluster| cluster.paused)
}

/// Whether a Cluster is the owner of an object, by name and UID.
pub fn is_owner(meta: &ObjectMeta, cluster: &CapiClusterView) -> bool {
    owner_cluster_ref(meta).is_some_and(|it| it.name == cluster.name && it.uid == cluster.uid)
}

/// Whether an annotation is present with any value.
pub fn has_annotation(meta: &ObjectMeta, name: &str) -> bool {
    meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn cluster(paused: bool) -> CapiClusterView {
        CapiClusterView {
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
        assert_eq!(evaluate(&ObjectMeta::default(), None, None), ReconcileGate::WaitingForOwner);
        assert_eq!(evaluate(&ObjectMeta::default(), Some(&cluster(false)), None), ReconcileGate::Proceed);
    }

    #[test]
    fn a_pause_counts_also_while_deleting() {
        assert_eq!(evaluate(&ObjectMeta::default(), Some(&cluster(true)), None), ReconcileGate::Paused);
        assert_eq!(
            evaluate(&annotated(names::PAUSED_ANNOTATION), Some(&cluster(false)), None),
            ReconcileGate::Paused
        );
        assert_eq!(
            evaluate(&deleted(annotated(names::PAUSED_ANNOTATION)), None, None),
            ReconcileGate::Paused
        );
    }

    #[test]
    fn a_deletion_goes_on_without_its_cluster() {
        assert_eq!(evaluate(&deleted(ObjectMeta::default()), None, None), ReconcileGate::Proceed);
    }

    #[test]
    fn what_clusterctl_moves_away_is_not_destroyed() {
        assert_eq!(
            evaluate(&deleted(annotated(names::DELETE_FOR_MOVE_ANNOTATION)), None, None),
            ReconcileGate::Moving
        );
    }

    #[test]
    fn a_filter_lets_only_its_own_objects_through() {
        let mut meta = ObjectMeta::default();
        assert_eq!(evaluate(&meta, Some(&cluster(false)), Some("blue")), ReconcileGate::FilteredOut);
        meta.labels = Some(BTreeMap::from([(names::WATCH_FILTER_LABEL.to_owned(), "blue".to_owned())]));
        assert_eq!(evaluate(&meta, Some(&cluster(false)), Some("blue")), ReconcileGate::Proceed);
    }
}
