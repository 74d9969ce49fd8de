//! Which Sandboxes a Deployment concerns, so that a change of it leads to a look at exactly these. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::core::ObjectMeta;

/// Where an object is: the cluster, if it is not our own, and the namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Name of the Cluster; none for our own.
    pub cluster: Option<String>,
    /// The namespace, which is that of the Sandbox too.
    pub namespace: String,
}

/// Name of a Sandbox in a spot.
pub type Reader = (Spot, String);

/// Sandboxes by the Deployments that they are made from, and what was seen of these last.
#[derive(Debug, Default)]
pub struct Index(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    readers: BTreeMap<(Spot, String), BTreeSet<String>>,
    reads: BTreeMap<Reader, BTreeSet<String>>,
    seen: BTreeMap<(Spot, String), Marks>,
    services: BTreeMap<(Spot, String), u64>,
}

/// What tells that a baseline is another one now. Its status is not among it: pods that come and go are nobody's news.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marks {
    uid: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    going: bool,
}

impl Index {
    /// Says which Deployments a Sandbox is made from.
    pub fn set(&self, spot: &Spot, sandbox: &str, deployments: BTreeSet<String>) {
        let mut inner = self.lock();
        let key = (spot.clone(), sandbox.to_owned());
        if inner.reads.get(&key) == Some(&deployments) {
            return;
        }
        for gone in inner.reads.remove(&key).unwrap_or_default() {
            let place = (spot.clone(), gone);
            if let Some(readers) = inner.readers.get_mut(&place) {
                readers.remove(sandbox);
                if readers.is_empty() {
                    inner.readers.remove(&place);
                    inner.seen.remove(&place);
                }
            }
        }
        for name in &deployments {
            inner.readers.entry((spot.clone(), name.clone())).or_default().insert(sandbox.to_owned());
        }
        inner.reads.insert(key, deployments);
    }

    /// The Sandboxes that a Deployment which changed concerns; none if only its status changed.
    pub fn concerned(&self, spot: &Spot, meta: &ObjectMeta) -> Vec<String> {
        let mut inner = self.lock();
        let place = (spot.clone(), meta.name.clone().unwrap_or_default());
        let Some(readers) = inner.readers.get(&place) else { return Vec::new() };
        let readers: Vec<String> = readers.iter().cloned().collect();
        let marks = Marks::of(meta);
        if inner.seen.get(&place) == Some(&marks) {
            return Vec::new();
        }
        inner.seen.insert(place, marks);
        readers
    }

    /// The Sandboxes that a Deployment which is gone concerns.
    pub fn bereft(&self, spot: &Spot, name: &str) -> Vec<String> {
        let mut inner = self.lock();
        let place = (spot.clone(), name.to_owned());
        inner.seen.remove(&place);
        inner.readers.get(&place).map(|it| it.iter().cloned().collect()).unwrap_or_default()
    }

    /// All Sandboxes whose spots are like this.
    pub fn at(&self, is: impl Fn(&Spot) -> bool) -> Vec<Reader> {
        self.lock().reads.keys().filter(|(at, _)| is(at)).cloned().collect()
    }

    /// All Sandboxes beside a Service that changed; none if it says the same as before. `digest` is none if it is gone.
    pub fn beside(&self, spot: &Spot, service: &str, digest: Option<u64>) -> Vec<Reader> {
        let mut inner = self.lock();
        let place = (spot.clone(), service.to_owned());
        let before = match digest {
            Some(digest) => inner.services.insert(place, digest),
            None => inner.services.remove(&place),
        };
        if digest.is_some() && before == digest {
            return Vec::new();
        }
        inner.reads.keys().filter(|(at, _)| at == spot).cloned().collect()
    }

    /// Forgets a Sandbox that is gone; says whether it was the last of its spot.
    pub fn remove(&self, spot: &Spot, sandbox: &str) -> bool {
        self.set(spot, sandbox, BTreeSet::new());
        let mut inner = self.lock();
        inner.reads.remove(&(spot.clone(), sandbox.to_owned()));
        !inner.reads.keys().any(|(at, _)| at == spot)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marks {
    fn of(meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.clone(),
            generation: meta.generation,
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
            going: meta.deletion_timestamp.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot() -> Spot {
        Spot { cluster: None, namespace: "shop".to_owned() }
    }

    fn meta(name: &str, generation: i64) -> ObjectMeta {
        ObjectMeta { name: Some(name.to_owned()), generation: Some(generation), ..ObjectMeta::default() }
    }

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn a_baseline_wakes_exactly_its_sandboxes() {
        let index = Index::default();
        index.set(&spot(), "one", names(&["cart", "web"]));
        index.set(&spot(), "two", names(&["web"]));
        index.set(&Spot { cluster: Some("eu".to_owned()), ..spot() }, "far", names(&["cart"]));
        assert_eq!(index.concerned(&spot(), &meta("cart", 1)), ["one"]);
        assert_eq!(index.concerned(&spot(), &meta("web", 1)), ["one", "two"]);
        assert!(index.concerned(&spot(), &meta("other", 1)).is_empty());
    }

    #[test]
    fn a_status_that_changes_wakes_nobody() {
        let index = Index::default();
        index.set(&spot(), "one", names(&["cart"]));
        assert_eq!(index.concerned(&spot(), &meta("cart", 1)), ["one"]);
        assert!(index.concerned(&spot(), &meta("cart", 1)).is_empty());
        assert_eq!(index.concerned(&spot(), &meta("cart", 2)), ["one"]);
        assert_eq!(index.bereft(&spot(), "cart"), ["one"]);
        assert_eq!(index.concerned(&spot(), &meta("cart", 2)), ["one"], "it is another one now");
    }

    #[test]
    fn a_service_wakes_its_neighbours_once() {
        let index = Index::default();
        index.set(&spot(), "one", names(&["cart"]));
        let one = [(spot(), "one".to_owned())];
        assert_eq!(index.beside(&spot(), "cart", Some(1)), one);
        assert!(index.beside(&spot(), "cart", Some(1)).is_empty());
        assert_eq!(index.beside(&spot(), "cart", Some(2)), one);
        assert_eq!(index.beside(&spot(), "cart", None), one);
        assert!(index.beside(&Spot { namespace: "other".to_owned(), ..spot() }, "cart", Some(1)).is_empty());
    }

    #[test]
    fn what_a_sandbox_does_not_read_any_more_does_not_wake_it() {
        let index = Index::default();
        index.set(&spot(), "one", names(&["cart"]));
        index.set(&spot(), "one", names(&[]));
        assert!(index.concerned(&spot(), &meta("cart", 1)).is_empty());
        let all = index.at(|it| it.cluster.is_none());
        assert_eq!(all, [(spot(), "one".to_owned())], "one with local workloads alone is there too");
        assert!(index.remove(&spot(), "one"));
        let inner = index.lock();
        assert!(inner.readers.is_empty() && inner.reads.is_empty() && inner.seen.is_empty());
    }
}
