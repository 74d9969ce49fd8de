//! Keeps CRDs: gives them names and conditions, serves what they define, and cleans up after those that go.
//!
//! One task watches the store. It is the only one that writes the status of CRDs and the only one that changes the
//! registry after the start. Objects of a CRD that goes are deleted through [`Cleaner`], which is the ordinary path of
//! a delete: finalizers are waited for.

mod cleanup;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{FINALIZER, resources::resources, status, view};
use crate::{
    clock,
    failure::{Answer, GroupResource},
    object::{Draft, Meta, text},
    registry::{Registry, Resource},
    store::{Entry, Expect, Page, Store, StoreEvent, WriteError},
};

/// Where CRDs are.
const PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions/";

/// When a status that could not be written is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Deletes an object as a client would.
pub trait Cleaner: Send + Sync + 'static {
    /// Asks for a delete; finalizers may keep the object.
    fn delete(&self, resource: Arc<Resource>, namespace: String, name: String) -> BoxFuture<'_, Answer<()>>;
}

/// The task that keeps CRDs.
pub struct Keeper {
    store: Store,
    registry: Arc<Registry>,
    cleaner: Arc<dyn Cleaner>,
    known: BTreeMap<String, Known>,
    cleaning: BTreeSet<String>,
    cleanups: JoinSet<String>,
    /// CRDs whose status could not be written.
    unsettled: BTreeSet<String>,
}

/// A CRD as it was last seen.
#[derive(Debug)]
struct Known {
    object: Value,
    revision: u64,
    /// First revision under its present spec.
    since: u64,
    /// What is served: nothing yet, or what these parts of the CRD say.
    served: Option<Served>,
}

#[derive(Debug, PartialEq)]
struct Served {
    generation: i64,
    names: view::Names,
    terminating: bool,
}

impl Keeper {
    /// A keeper of the CRDs in a store.
    pub fn new(store: Store, registry: Arc<Registry>, cleaner: Arc<dyn Cleaner>) -> Self {
        Self {
            store,
            registry,
            cleaner,
            known: BTreeMap::new(),
            cleaning: BTreeSet::new(),
            cleanups: JoinSet::new(),
            unsettled: BTreeSet::new(),
        }
    }

    /// Serves what is in the store already. To be called before the first request, so that a restart shows no gap.
    /// Gives the revision up to which everything is known.
    pub fn load(&mut self) -> u64 {
        // The present can always be listed.
        let Ok(snapshot) = self.store.list(PREFIX, &Page::default()) else { return self.store.revision() };
        let present: BTreeSet<String> = snapshot.entries.iter().map(|(key, _)| key.to_string()).collect();
        let gone: Vec<String> = self.known.keys().filter(|key| !present.contains(*key)).cloned().collect();
        for key in &gone {
            self.forget(key);
        }
        for (key, entry) in &snapshot.entries {
            self.learn(key, entry);
        }
        snapshot.revision
    }

    /// Runs until it is cancelled or the store closes.
    pub async fn run(mut self, cancel: CancellationToken) {
        while !cancel.is_cancelled() {
            // A history that is gone is made up for by a new look at what is there.
            let revision = self.load();
            self.settle_all().await;
            let Ok(mut watch) = self.store.watch(PREFIX, revision) else { continue };
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return,
                    Some(done) = self.cleanups.join_next() => {
                        if let Ok(key) = done {
                            self.cleaned(&key);
                        }
                    }
                    () = tokio::time::sleep(RETRY), if !self.unsettled.is_empty() => {
                        for key in std::mem::take(&mut self.unsettled) {
                            self.settle(&key).await;
                        }
                    }
                    event = watch.next() => match event {
                        Some(Ok(event)) => self.follow(&event).await,
                        Some(Err(_)) => break,
                        None => return,
                    },
                }
            }
        }
    }

    async fn follow(&mut self, event: &StoreEvent) {
        let group = event.document().map(|document| text(&document.value(), &["spec", "group"]).to_owned());
        match &event.now {
            Some(entry) => self.learn(&event.key, entry),
            None => self.forget(&event.key),
        }
        // A name that was given or freed concerns the neighbours too.
        let keys: Vec<String> = self
            .known
            .iter()
            .filter(|(_, known)| group.as_deref() == Some(text(&known.object, &["spec", "group"])))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.settle(&key).await;
        }
    }

    async fn settle_all(&mut self) {
        let keys: Vec<String> = self.known.keys().cloned().collect();
        for key in keys {
            self.settle(&key).await;
        }
    }

    /// Takes note of a CRD and serves what it defines.
    fn learn(&mut self, key: &str, entry: &Entry) {
        let object = entry.document.value();
        let before = self.known.remove(key);
        let same = before.as_ref().filter(|before| before.object.uid() == object.uid());
        let changed = same.is_some_and(|before| before.object.generation() != object.generation());
        let mut since = same.filter(|_| !changed).map_or(entry.revision, |before| before.since);
        let served = self.serve(&object, &mut since, changed, same.and_then(|before| before.served.as_ref()));
        self.known.insert(key.to_owned(), Known { object, revision: entry.revision, since, served });
    }

    /// Brings the registry up to date, if something has changed.
    fn serve(&self, crd: &Value, since: &mut u64, changed: bool, before: Option<&Served>) -> Option<Served> {
        if !view::is_true(crd, "Established") {
            return None;
        }
        let served = Served {
            generation: crd.generation(),
            names: view::accepted_names(crd),
            terminating: view::is_true(crd, "Terminating"),
        };
        if before != Some(&served) {
            let mut versions = resources(crd, *since);
            if changed {
                // What was written until now, after the CRD too, was checked under the schema before.
                *since = self.store.revision() + 1;
                for version in &mut versions {
                    version.schema_since = *since;
                }
            }
            self.registry.replace(&owner(crd), versions);
        }
        Some(served)
    }

    fn forget(&mut self, key: &str) {
        if let Some(known) = self.known.remove(key) {
            self.registry.replace(&owner(&known.object), Vec::new());
        }
    }

    /// Writes the status a CRD should have. A conflict is no trouble: the winner comes by the watch.
    async fn settle(&mut self, key: &str) {
        let Some(known) = self.known.get(key) else { return };
        if known.object.is_terminating() {
            self.clean(key);
            return;
        }
        let others: Vec<Value> = self
            .known
            .iter()
            .filter(|(other, _)| *other != key)
            .map(|(_, other)| other.object.clone())
            .collect();
        let Some(status) = status::settle(&known.object, &others, clock::now()) else { return };
        let mut next = known.object.clone();
        if let Some(map) = next.as_object_mut() {
            map.insert("status".to_owned(), status);
        }
        let (revision, is_new) = (known.revision, known.served.is_none());
        if is_new {
            self.announce(key, &next);
        }
        let written = put(&self.store, key, revision, &next).await;
        if is_new && written.is_err() {
            self.retract(key);
        }
        match written {
            // What was written is known at once, so that the next one is judged by it.
            Ok(entry) => self.learn(key, &entry),
            Err(WriteError::Conflict(_)) => {}
            Err(error) => {
                tracing::warn!(%error, key, "the status of a definition could not be written");
                self.unsettled.insert(key.to_owned());
            }
        }
    }

    /// Serves what a CRD defines before anybody can read that it is established: who reads that asks for it at once.
    fn announce(&mut self, key: &str, next: &Value) {
        let Some(mut known) = self.known.remove(key) else { return };
        known.served = self.serve(next, &mut known.since, false, None);
        self.known.insert(key.to_owned(), known);
    }

    /// It is not established after all.
    fn retract(&mut self, key: &str) {
        let Some(known) = self.known.get_mut(key) else { return };
        if known.served.take().is_some() {
            self.registry.replace(&owner(&known.object), Vec::new());
        }
    }

    /// A cleanup is over. The next CRD of that name may have been deleted meanwhile, when it still seemed to run.
    pub(super) fn cleaned(&mut self, key: &str) {
        self.cleaning.remove(key);
        let waits =
            |crd: Value| crd.is_terminating() && crd.finalizers().iter().any(|name| name == FINALIZER);
        if self.store.get(key).is_some_and(|entry| waits(entry.document.value())) {
            self.clean(key);
        }
    }

    pub(super) fn clean(&mut self, key: &str) {
        if !self.cleaning.insert(key.to_owned()) {
            return;
        }
        let cleanup = cleanup::Cleanup {
            store: self.store.clone(),
            cleaner: Arc::clone(&self.cleaner),
            key: key.to_owned(),
        };
        let key = key.to_owned();
        self.cleanups.spawn(async move {
            cleanup.run().await;
            key
        });
    }
}

fn owner(crd: &Value) -> GroupResource {
    GroupResource::new(text(crd, &["spec", "group"]), text(crd, &["spec", "names", "plural"]))
}

/// Writes an object that was last written by `revision`.
async fn put(store: &Store, key: &str, revision: u64, object: &Value) -> Result<Entry, WriteError> {
    let Ok(draft) = Draft::of(object) else { return Err(WriteError::Conflict(None)) };
    let written = store.write(key, Expect::At(revision), Some(draft)).await?;
    Ok(Entry { revision: written.revision, document: written.document })
}
