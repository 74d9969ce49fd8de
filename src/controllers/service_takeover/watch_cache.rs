//! What watches told last, cut down to what is asked for. It is kept before anybody is woken for it, so that a look at a
//! Service costs no request, however many there are.

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

/// Something that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change<V> {
    /// Of the object.
    pub(super) namespace: String,
    /// Of the object.
    pub(super) name: String,
    /// What was kept of it.
    pub(super) before: Option<V>,
    /// What is kept of it now; none if it is gone.
    pub(super) now: Option<V>,
}

/// By namespace and name.
type All<V> = HashMap<String, HashMap<String, V>>;

/// What is kept of the objects of a kind.
#[derive(Debug)]
pub(super) struct Kept<V> {
    all: RwLock<All<V>>,
    /// Those that a list named so far; what it does not name is gone.
    listed: RwLock<HashSet<(String, String)>>,
    complete: CancellationToken,
}

impl<V> Default for Kept<V> {
    fn default() -> Self {
        Self { all: RwLock::default(), listed: RwLock::default(), complete: CancellationToken::new() }
    }
}

impl<V: Clone + PartialEq> Kept<V> {
    /// Waits until everything was seen once.
    pub(super) async fn ready(&self) {
        self.complete.cancelled().await;
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<V> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(namespace)?.get(name).cloned()
    }

    /// All of a namespace, with their names.
    pub(super) fn within(&self, namespace: &str) -> Vec<(String, V)> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let here = all.get(namespace).into_iter().flatten();
        here.map(|(name, it)| (name.clone(), it.clone())).collect()
    }

    /// Takes note of what a watch says. What stays the same is no change.
    pub(super) fn hear<K: Resource>(&self, event: &Event<K>, cut: impl Fn(&K) -> V) -> Vec<Change<V>> {
        let mut listed = self.listed.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => {
                listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                listed.insert(path(object));
                self.put(path(object), Some(cut(object))).into_iter().collect()
            }
            Event::InitDone => {
                let gone = self.names().into_iter().filter(|it| !listed.contains(it));
                let gone = gone.filter_map(|it| self.put(it, None)).collect();
                listed.clear();
                self.complete.cancel();
                gone
            }
            Event::Apply(object) => self.put(path(object), Some(cut(object))).into_iter().collect(),
            Event::Delete(object) => self.put(path(object), None).into_iter().collect(),
        }
    }

    fn names(&self) -> Vec<(String, String)> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let of_one = |(namespace, here): (&String, &HashMap<String, V>)| {
            here.keys().map(|it| (namespace.clone(), it.clone())).collect::<Vec<_>>()
        };
        all.iter().flat_map(of_one).collect()
    }

    fn put(&self, (namespace, name): (String, String), now: Option<V>) -> Option<Change<V>> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let here = all.entry(namespace.clone()).or_default();
        let before = match now.clone() {
            Some(now) => here.insert(name.clone(), now),
            None => here.remove(&name),
        };
        if here.is_empty() {
            all.remove(&namespace);
        }
        (before != now).then_some(Change { namespace, name, before, now })
    }
}

fn path(object: &impl Resource) -> (String, String) {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Keeps what a watch tells, and says what is different. A watch that fails goes on where it was; what is kept stays.
pub(super) fn follow<K, V>(
    kept: Arc<Kept<V>>,
    (objects, which): (Api<K>, watcher::Config),
    cut: fn(&K) -> V,
) -> impl Stream<Item = Change<V>> + Send + use<K, V>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    V: Clone + PartialEq + Send + Sync + 'static,
{
    let events = watcher(objects, which).default_backoff();
    events.flat_map(move |event| {
        let changes = match event {
            Ok(event) => kept.hear(&event, cut),
            Err(error) => {
                tracing::warn!(%error, "a watch of what Services need stumbled");
                Vec::new()
            }
        };
        stream::iter(changes)
    })
}

/// What is asked of a slice of endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// The Service whose endpoints they are.
    pub(super) service: String,
    /// The addresses that are ready.
    pub(super) ready: BTreeSet<String>,
}

/// What is asked of a slice of endpoints.
pub(super) fn slice(object: &k8s_openapi::api::discovery::v1::EndpointSlice) -> Slice {
    let ready = object.endpoints.iter().filter(|it| {
        // Nothing said means ready.
        it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    });
    Slice {
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

    fn change(before: Option<&str>, now: Option<&str>) -> Change<String> {
        let own = |it: Option<&str>| it.map(str::to_owned);
        Change { namespace: "shop".into(), name: "a".into(), before: own(before), now: own(now) }
    }

    #[test]
    fn what_is_asked_for_and_stays_the_same_is_no_change() {
        let kept = Kept::default();
        let hear = |event| kept.hear(&event, word);
        assert!(hear(Event::Init).is_empty());
        assert_eq!(hear(Event::InitApply(object("a", "1"))), [change(None, Some("1"))]);
        assert_eq!(kept.get("shop", "a").as_deref(), Some("1"), "it is kept before anybody is woken");
        assert!(!kept.complete.is_cancelled());
        assert!(hear(Event::InitDone).is_empty());
        assert!(kept.complete.is_cancelled());
        let mut renewed = object("a", "1");
        renewed.metadata.resource_version = Some("2".into());
        assert!(hear(Event::Apply(renewed)).is_empty());
        assert_eq!(hear(Event::Apply(object("a", "2"))), [change(Some("1"), Some("2"))]);
        assert_eq!(hear(Event::Delete(object("a", "2"))), [change(Some("2"), None)]);
        assert!(kept.within("shop").is_empty());
    }

    #[test]
    fn what_went_while_nobody_watched_is_told_by_the_next_list() {
        let kept = Kept::default();
        let hear = |event| kept.hear(&event, word);
        for name in ["a", "b"] {
            hear(Event::Apply(object(name, name)));
        }
        hear(Event::Init);
        assert!(hear(Event::InitApply(object("b", "b"))).is_empty());
        assert_eq!(kept.within("shop").len(), 2, "nothing is forgotten in between");
        assert_eq!(hear(Event::InitDone), [change(Some("a"), None)]);
    }
}
