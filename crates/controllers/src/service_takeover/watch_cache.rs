//! Caches of watched objects, reduced to the fields in use. A cache is updated before Services are triggered, so that a reconcile
//! needs no requests.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
};

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// A changed cache entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CacheChange<V> {
    /// Of the object.
    pub(super) namespace: String,
    /// Of the object.
    pub(super) name: String,
    /// The previous value.
    pub(super) before: Option<V>,
    /// The new value; `None` if the object was deleted.
    pub(super) now: Option<V>,
}

/// By namespace and name.
type ByNamespace<V> = HashMap<String, HashMap<String, V>>;

/// The cache of one kind.
#[derive(Debug)]
pub(super) struct WatchCache<V> {
    all: RwLock<ByNamespace<V>>,
    /// Objects returned so far by the list in progress; all others were deleted.
    listed: RwLock<HashSet<(String, String)>>,
    synced: CancellationToken,
}

impl<V> Default for WatchCache<V> {
    fn default() -> Self {
        Self { all: RwLock::default(), listed: RwLock::default(), synced: CancellationToken::new() }
    }
}

impl<V: Clone + PartialEq> WatchCache<V> {
    /// Waits for the first complete list.
    pub(super) async fn wait_synced(&self) {
        self.synced.cancelled().await;
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<V> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(namespace)?.get(name).cloned()
    }

    /// All entries of a namespace, with their names.
    pub(super) fn list_namespace(&self, namespace: &str) -> Vec<(String, V)> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let here = all.get(namespace).into_iter().flatten();
        here.map(|(name, it)| (name.clone(), it.clone())).collect()
    }

    /// Applies a watch event. Returns only entries whose value changed.
    pub(super) fn apply_event<K: Resource>(
        &self,
        event: &Event<K>,
        cut: impl Fn(&K) -> V,
    ) -> Vec<CacheChange<V>> {
        let mut listed = self.listed.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => {
                listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                listed.insert(object_key(object));
                self.set(object_key(object), Some(cut(object))).into_iter().collect()
            }
            Event::InitDone => {
                let gone = self.keys().into_iter().filter(|it| !listed.contains(it));
                let gone = gone.filter_map(|it| self.set(it, None)).collect();
                listed.clear();
                self.synced.cancel();
                gone
            }
            Event::Apply(object) => self.set(object_key(object), Some(cut(object))).into_iter().collect(),
            Event::Delete(object) => self.set(object_key(object), None).into_iter().collect(),
        }
    }

    fn keys(&self) -> Vec<(String, String)> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let of_one = |(namespace, here): (&String, &HashMap<String, V>)| {
            here.keys().map(|it| (namespace.clone(), it.clone())).collect::<Vec<_>>()
        };
        all.iter().flat_map(of_one).collect()
    }

    fn set(&self, (namespace, name): (String, String), now: Option<V>) -> Option<CacheChange<V>> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let here = all.entry(namespace.clone()).or_default();
        let before = match now.clone() {
            Some(now) => here.insert(name.clone(), now),
            None => here.remove(&name),
        };
        if here.is_empty() {
            all.remove(&namespace);
        }
        (before != now).then_some(CacheChange { namespace, name, before, now })
    }
}

fn object_key(object: &impl Resource) -> (String, String) {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Feeds a cache from a watch and streams the changes. The cache is kept while a failed watch restarts.
pub(super) fn watch_into<K, V>(
    kept: Arc<WatchCache<V>>,
    (objects, which): (Api<K>, watcher::Config),
    cut: fn(&K) -> V,
) -> impl Stream<Item = CacheChange<V>> + Send + use<K, V>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    V: Clone + PartialEq + Send + Sync + 'static,
{
    let events = watcher(objects, which).default_backoff();
    events.flat_map(move |event| {
        let changes = match event {
            Ok(event) => kept.apply_event(&event, cut),
            Err(error) => {
                tracing::warn!(%error, "watch error, restarting");
                Vec::new()
            }
        };
        stream::iter(changes)
    })
}

/// The relevant fields of an `EndpointSlice`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServiceEndpoints {
    /// The Service whose endpoints they are.
    pub(super) service: String,
    /// The addresses that are ready.
    pub(super) ready: BTreeSet<String>,
}

/// Extracts the relevant fields of an `EndpointSlice`.
pub(super) fn service_endpoints(object: &k8s_openapi::api::discovery::v1::EndpointSlice) -> ServiceEndpoints {
    let ready = object.endpoints.iter().filter(|it| {
        // An unset condition means ready.
        it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    });
    ServiceEndpoints {
        service: object.labels().get("kubernetes.io/service-name").cloned().unwrap_or_default(),
        ready: ready.flat_map(|it| it.addresses.iter().cloned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(name: &str, word: &str) -> ConfigMap {
        let object = json!({"metadata": {"name": name, "namespace": "shop", "annotations": {"word": word}}});
        serde_json::from_value(object).unwrap()
    }

    fn word(object: &ConfigMap) -> String {
        object.annotations()["word"].clone()
    }

    fn change(before: Option<&str>, now: Option<&str>) -> CacheChange<String> {
        let own = |it: Option<&str>| it.map(str::to_owned);
        CacheChange { namespace: "shop".into(), name: "a".into(), before: own(before), now: own(now) }
    }

    #[test]
    fn what_is_asked_for_and_stays_the_same_is_no_change() {
        let kept = WatchCache::default();
        let hear = |event| kept.apply_event(&event, word);
        assert!(hear(Event::Init).is_empty());
        assert_eq!(hear(Event::InitApply(object("a", "1"))), [change(None, Some("1"))]);
        assert_eq!(kept.get("shop", "a").as_deref(), Some("1"), "it is kept before anybody is woken");
        assert!(!kept.synced.is_cancelled());
        assert!(hear(Event::InitDone).is_empty());
        assert!(kept.synced.is_cancelled());
        let mut renewed = object("a", "1");
        renewed.metadata.resource_version = Some("2".into());
        assert!(hear(Event::Apply(renewed)).is_empty());
        assert_eq!(hear(Event::Apply(object("a", "2"))), [change(Some("1"), Some("2"))]);
        assert_eq!(hear(Event::Delete(object("a", "2"))), [change(Some("2"), None)]);
        assert!(kept.list_namespace("shop").is_empty());
    }

    #[test]
    fn what_went_while_nobody_watched_is_told_by_the_next_list() {
        let kept = WatchCache::default();
        let hear = |event| kept.apply_event(&event, word);
        for name in ["a", "b"] {
            hear(Event::Apply(object(name, name)));
        }
        hear(Event::Init);
        assert!(hear(Event::InitApply(object("b", "b"))).is_empty());
        assert_eq!(kept.list_namespace("shop").len(), 2, "nothing is forgotten in between");
        assert_eq!(hear(Event::InitDone), [change(Some("a"), None)]);
    }
}
