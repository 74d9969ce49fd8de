//! Reverse index from Deployments to the Sandboxes that refer to them, so that a change triggers exactly these. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::core::ObjectMeta;

/// A namespace of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterNamespace {
    /// Name of the Cluster; `None` for the own cluster.
    pub cluster: Option<String>,
    /// The namespace, the same as the Sandbox's.
    pub namespace: String,
}

/// Location and name of a Sandbox.
pub type SandboxKey = (ClusterNamespace, String);

/// Sandboxes by baseline, with the last observed fingerprint of each baseline.
#[derive(Debug, Default)]
pub struct BaselineIndex(Mutex<BaselineIndexState>);

#[derive(Debug, Default)]
struct BaselineIndexState {
    dependents: BTreeMap<(ClusterNamespace, String), BTreeSet<String>>,
    baselines: BTreeMap<SandboxKey, BTreeSet<String>>,
    fingerprints: BTreeMap<(ClusterNamespace, String), BaselineFingerprint>,
    service_hashes: BTreeMap<(ClusterNamespace, String), u64>,
}

/// The fields of a baseline whose change triggers its Sandboxes. The status is left out: pod churn is irrelevant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BaselineFingerprint {
    uid: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    deleting: bool,
}

impl BaselineIndex {
    /// Sets the baselines of a Sandbox.
    pub fn set(&self, spot: &ClusterNamespace, sandbox: &str, deployments: BTreeSet<String>) {
        let mut inner = self.lock();
        let key = (spot.clone(), sandbox.to_owned());
        if inner.baselines.get(&key) == Some(&deployments) {
            return;
        }
        for gone in inner.baselines.remove(&key).unwrap_or_default() {
            let place = (spot.clone(), gone);
            if let Some(readers) = inner.dependents.get_mut(&place) {
                readers.remove(sandbox);
                if readers.is_empty() {
                    inner.dependents.remove(&place);
                    inner.fingerprints.remove(&place);
                }
            }
        }
        for name in &deployments {
            inner.dependents.entry((spot.clone(), name.clone())).or_default().insert(sandbox.to_owned());
        }
        inner.baselines.insert(key, deployments);
    }

    /// The Sandboxes of a Deployment that was applied; none if only its status changed.
    pub fn baseline_changed(&self, spot: &ClusterNamespace, meta: &ObjectMeta) -> Vec<String> {
        let mut inner = self.lock();
        let place = (spot.clone(), meta.name.clone().unwrap_or_default());
        let Some(readers) = inner.dependents.get(&place) else { return Vec::new() };
        let readers: Vec<String> = readers.iter().cloned().collect();
        let marks = BaselineFingerprint::from_meta(meta);
        if inner.fingerprints.get(&place) == Some(&marks) {
            return Vec::new();
        }
        inner.fingerprints.insert(place, marks);
        readers
    }

    /// The Sandboxes of a Deployment that was deleted.
    pub fn baseline_deleted(&self, spot: &ClusterNamespace, name: &str) -> Vec<String> {
        let mut inner = self.lock();
        let place = (spot.clone(), name.to_owned());
        inner.fingerprints.remove(&place);
        inner.dependents.get(&place).map(|it| it.iter().cloned().collect()).unwrap_or_default()
    }

    /// All Sandboxes whose location matches.
    pub fn sandboxes_where(&self, is: impl Fn(&ClusterNamespace) -> bool) -> Vec<SandboxKey> {
        self.lock().baselines.keys().filter(|(at, _)| is(at)).cloned().collect()
    }

    /// All Sandboxes in the namespace of a Service; none if its hash is unchanged. `digest` is `None` if it was deleted.
    pub fn service_changed(
        &self,
        spot: &ClusterNamespace,
        service: &str,
        digest: Option<u64>,
    ) -> Vec<SandboxKey> {
        let mut inner = self.lock();
        let place = (spot.clone(), service.to_owned());
        let before = match digest {
            Some(digest) => inner.service_hashes.insert(place, digest),
            None => inner.service_hashes.remove(&place),
        };
        if digest.is_some() && before == digest {
            return Vec::new();
        }
        inner.baselines.keys().filter(|(at, _)| at == spot).cloned().collect()
    }

    /// Removes a deleted Sandbox; returns whether it was the last of its location.
    pub fn remove(&self, spot: &ClusterNamespace, sandbox: &str) -> bool {
        self.set(spot, sandbox, BTreeSet::new());
        let mut inner = self.lock();
        inner.baselines.remove(&(spot.clone(), sandbox.to_owned()));
        !inner.baselines.keys().any(|(at, _)| at == spot)
    }

    fn lock(&self) -> MutexGuard<'_, BaselineIndexState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BaselineFingerprint {
    fn from_meta(meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.clone(),
            generation: meta.generation,
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot() -> ClusterNamespace {
        ClusterNamespace { cluster: None, namespace: "shop".to_owned() }
    }

    fn meta(name: &str, generation: i64) -> ObjectMeta {
        ObjectMeta { name: Some(name.to_owned()), generation: Some(generation), ..ObjectMeta::default() }
    }

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn a_baseline_wakes_exactly_its_sandboxes() {
        let index = BaselineIndex::default();
        index.set(&spot(), "one", names(&["cart", "web"]));
        index.set(&spot(), "two", names(&["web"]));
        index.set(&ClusterNamespace { cluster: Some("eu".to_owned()), ..spot() }, "far", names(&["cart"]));
        assert_eq!(index.baseline_changed(&spot(), &meta("cart", 1)), ["one"]);
        assert_eq!(index.baseline_changed(&spot(), &meta("web", 1)), ["one", "two"]);
        assert!(index.baseline_changed(&spot(), &meta("other", 1)).is_empty());
    }

    #[test]
    fn a_status_that_changes_wakes_nobody() {
        let index = BaselineIndex::default();
        index.set(&spot(), "one", names(&["cart"]));
        assert_eq!(index.baseline_changed(&spot(), &meta("cart", 1)), ["one"]);
        assert!(index.baseline_changed(&spot(), &meta("cart", 1)).is_empty());
        assert_eq!(index.baseline_changed(&spot(), &meta("cart", 2)), ["one"]);
        assert_eq!(index.baseline_deleted(&spot(), "cart"), ["one"]);
        assert_eq!(index.baseline_changed(&spot(), &meta("cart", 2)), ["one"], "it is another one now");
    }

    #[test]
    fn a_service_wakes_its_neighbours_once() {
        let index = BaselineIndex::default();
        index.set(&spot(), "one", names(&["cart"]));
        let one = [(spot(), "one".to_owned())];
        assert_eq!(index.service_changed(&spot(), "cart", Some(1)), one);
        assert!(index.service_changed(&spot(), "cart", Some(1)).is_empty());
        assert_eq!(index.service_changed(&spot(), "cart", Some(2)), one);
        assert_eq!(index.service_changed(&spot(), "cart", None), one);
        assert!(
            index
                .service_changed(
                    &ClusterNamespace { namespace: "other".to_owned(), ..spot() },
                    "cart",
                    Some(1)
                )
                .is_empty()
        );
    }

    #[test]
    fn what_a_sandbox_does_not_read_any_more_does_not_wake_it() {
        let index = BaselineIndex::default();
        index.set(&spot(), "one", names(&["cart"]));
        index.set(&spot(), "one", names(&[]));
        assert!(index.baseline_changed(&spot(), &meta("cart", 1)).is_empty());
        let all = index.sandboxes_where(|it| it.cluster.is_none());
        assert_eq!(all, [(spot(), "one".to_owned())], "one with local workloads alone is there too");
        assert!(index.remove(&spot(), "one"));
        let inner = index.lock();
        assert!(inner.dependents.is_empty() && inner.baselines.is_empty() && inner.fingerprints.is_empty());
    }
}
