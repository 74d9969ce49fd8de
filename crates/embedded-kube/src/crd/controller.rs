//! CRD controller: accepts names, sets conditions, serves the defined resources, and cleans up deleted CRDs.
//!
//! A single task watches the store. It is the only writer of CRD status and, after startup, of the registry. Objects of
//! a deleted CRD are deleted through [`ObjectDeleter`], the regular delete path, so their finalizers are honoured.

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

use super::{FINALIZER, accessors, resources::served_resources, status};
use crate::{
    clock,
    object::{Draft, MetaAccessor, str_at},
    registry::{Registry, Resource},
    status_error::{ApiResult, GroupResource},
    store::{Entry, ListOptions, Precondition, Store, StoreEvent, WriteError},
};

/// Key prefix of CRDs.
const PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions/";

/// Delay before a failed status write is retried.
const STATUS_RETRY: Duration = Duration::from_millis(500);

/// Deletes objects as a client would.
pub trait ObjectDeleter: Send + Sync + 'static {
    /// Requests deletion; finalizers may keep the object.
    fn delete(
        &self,
        resource: Arc<Resource>,
        namespace: String,
        name: String,
    ) -> BoxFuture<'_, ApiResult<()>>;
}

/// The CRD controller.
pub struct CrdController {
    store: Store,
    registry: Arc<Registry>,
    deleter: Arc<dyn ObjectDeleter>,
    crds: BTreeMap<String, TrackedCrd>,
    cleaning: BTreeSet<String>,
    cleanups: JoinSet<String>,
    /// CRDs whose status write failed.
    pending_status: BTreeSet<String>,
}

/// Last observed state of a CRD.
#[derive(Debug)]
struct TrackedCrd {
    object: Value,
    revision: u64,
    /// First revision under the current spec.
    schema_revision: u64,
    /// What is served: nothing yet, or the result of these parts of the CRD.
    served: Option<ServedCrd>,
}

#[derive(Debug, PartialEq)]
struct ServedCrd {
    generation: i64,
    names: accessors::CrdNames,
    terminating: bool,
}

impl CrdController {
    /// A controller for the CRDs of a store.
    pub fn new(store: Store, registry: Arc<Registry>, deleter: Arc<dyn ObjectDeleter>) -> Self {
        Self {
            store,
            registry,
            deleter,
            crds: BTreeMap::new(),
            cleaning: BTreeSet::new(),
            cleanups: JoinSet::new(),
            pending_status: BTreeSet::new(),
        }
    }

    /// Serves the CRDs that are already stored. Called before the first request, so that a restart shows no gap.
    /// Returns the revision of the snapshot.
    pub fn load(&mut self) -> u64 {
        // A list of the current state cannot expire.
        let Ok(snapshot) = self.store.list(PREFIX, &ListOptions::default()) else {
            return self.store.revision();
        };
        let present: BTreeSet<String> = snapshot.entries.iter().map(|(key, _)| key.to_string()).collect();
        let gone: Vec<String> = self.crds.keys().filter(|key| !present.contains(*key)).cloned().collect();
        for key in &gone {
            self.untrack(key);
        }
        for (key, entry) in &snapshot.entries {
            self.track(key, entry);
        }
        snapshot.revision
    }

    /// Runs until cancelled or the store closes.
    pub async fn run(mut self, cancel: CancellationToken) {
        while !cancel.is_cancelled() {
            // After a compaction, a full resync replaces the missed events.
            let revision = self.load();
            self.reconcile_all().await;
            let Ok(mut watch) = self.store.watch(PREFIX, revision) else { continue };
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return,
                    Some(done) = self.cleanups.join_next() => {
                        if let Ok(key) = done {
                            self.cleanup_finished(&key);
                        }
                    }
                    () = tokio::time::sleep(STATUS_RETRY), if !self.pending_status.is_empty() => {
                        for key in std::mem::take(&mut self.pending_status) {
                            self.reconcile_status(&key).await;
                        }
                    }
                    event = watch.next() => match event {
                        Some(Ok(event)) => self.handle_event(&event).await,
                        Some(Err(_)) => break,
                        None => return,
                    },
                }
            }
        }
    }

    async fn handle_event(&mut self, event: &StoreEvent) {
        let group = event.document().map(|document| str_at(&document.value(), &["spec", "group"]).to_owned());
        match &event.current {
            Some(entry) => self.track(&event.key, entry),
            None => self.untrack(&event.key),
        }
        // Accepted or freed names affect other CRDs of the group.
        let keys: Vec<String> = self
            .crds
            .iter()
            .filter(|(_, known)| group.as_deref() == Some(str_at(&known.object, &["spec", "group"])))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.reconcile_status(&key).await;
        }
    }

    async fn reconcile_all(&mut self) {
        let keys: Vec<String> = self.crds.keys().cloned().collect();
        for key in keys {
            self.reconcile_status(&key).await;
        }
    }

    /// Tracks a CRD and serves the resources that it defines.
    fn track(&mut self, key: &str, entry: &Entry) {
        let object = entry.document.value();
        let before = self.crds.remove(key);
        let same = before.as_ref().filter(|before| before.object.uid() == object.uid());
        let changed = same.is_some_and(|before| before.object.generation() != object.generation());
        let mut since = same.filter(|_| !changed).map_or(entry.revision, |before| before.schema_revision);
        let served = self.update_registry(
            &object,
            &mut since,
            changed,
            same.and_then(|before| before.served.as_ref()),
        );
        self.crds.insert(
            key.to_owned(),
            TrackedCrd { object, revision: entry.revision, schema_revision: since, served },
        );
    }

    /// Updates the registry if anything relevant changed.
    fn update_registry(
        &self,
        crd: &Value,
        since: &mut u64,
        changed: bool,
        before: Option<&ServedCrd>,
    ) -> Option<ServedCrd> {
        if !accessors::is_condition_true(crd, "Established") {
            return None;
        }
        let served = ServedCrd {
            generation: crd.generation(),
            names: accessors::accepted_names(crd),
            terminating: accessors::is_condition_true(crd, "Terminating"),
        };
        if before != Some(&served) {
            let mut versions = served_resources(crd, *since);
            if changed {
                // Objects written up to now, even after the CRD, were validated under the previous schema.
                *since = self.store.revision() + 1;
                for version in &mut versions {
                    version.schema_revision = *since;
                }
            }
            self.registry.replace(&group_resource_of(crd), versions);
        }
        Some(served)
    }

    fn untrack(&mut self, key: &str) {
        if let Some(known) = self.crds.remove(key) {
            self.registry.replace(&group_resource_of(&known.object), Vec::new());
        }
    }

    /// Writes the computed status of a CRD. Conflicts are ignored: the watch delivers the winner.
    async fn reconcile_status(&mut self, key: &str) {
        let Some(known) = self.crds.get(key) else { return };
        if known.object.is_terminating() {
            self.start_cleanup(key);
            return;
        }
        let others: Vec<Value> = self
            .crds
            .iter()
            .filter(|(other, _)| *other != key)
            .map(|(_, other)| other.object.clone())
            .collect();
        let Some(status) = status::compute_status(&known.object, &others, clock::now()) else { return };
        let mut next = known.object.clone();
        if let Some(map) = next.as_object_mut() {
            map.insert("status".to_owned(), status);
        }
        let (revision, is_new) = (known.revision, known.served.is_none());
        if is_new {
            self.serve_before_established(key, &next);
        }
        let written = write_object(&self.store, key, revision, &next).await;
        if is_new && written.is_err() {
            self.stop_serving(key);
        }
        match written {
            // The written state is tracked immediately, so that the next CRD is evaluated against it.
            Ok(entry) => self.track(key, &entry),
            Err(WriteError::Conflict(_)) => {}
            Err(error) => {
                tracing::warn!(%error, key, "failed to write CRD status, retrying");
                self.pending_status.insert(key.to_owned());
            }
        }
    }

    /// Serves a CRD before `Established` is readable: clients use it as soon as they see the condition.
    fn serve_before_established(&mut self, key: &str, next: &Value) {
        let Some(mut known) = self.crds.remove(key) else { return };
        known.served = self.update_registry(next, &mut known.schema_revision, false, None);
        self.crds.insert(key.to_owned(), known);
    }

    /// Undoes `serve_before_established` after a failed write.
    fn stop_serving(&mut self, key: &str) {
        let Some(known) = self.crds.get_mut(key) else { return };
        if known.served.take().is_some() {
            self.registry.replace(&group_resource_of(&known.object), Vec::new());
        }
    }

    /// Called when a cleanup has finished. A new CRD of that name may have been deleted while the cleanup seemed to
    /// run.
    pub(super) fn cleanup_finished(&mut self, key: &str) {
        self.cleaning.remove(key);
        let waits =
            |crd: Value| crd.is_terminating() && crd.finalizers().iter().any(|name| name == FINALIZER);
        if self.store.get(key).is_some_and(|entry| waits(entry.document.value())) {
            self.start_cleanup(key);
        }
    }

    pub(super) fn start_cleanup(&mut self, key: &str) {
        if !self.cleaning.insert(key.to_owned()) {
            return;
        }
        let cleanup = cleanup::Cleanup {
            store: self.store.clone(),
            deleter: Arc::clone(&self.deleter),
            key: key.to_owned(),
        };
        let key = key.to_owned();
        self.cleanups.spawn(async move {
            cleanup.run().await;
            key
        });
    }
}

fn group_resource_of(crd: &Value) -> GroupResource {
    GroupResource::new(str_at(crd, &["spec", "group"]), str_at(crd, &["spec", "names", "plural"]))
}

/// Writes an object that was last written at `revision`.
async fn write_object(store: &Store, key: &str, revision: u64, object: &Value) -> Result<Entry, WriteError> {
    let Ok(draft) = Draft::from_value(object) else { return Err(WriteError::Conflict(None)) };
    let written = store.write(key, Precondition::Revision(revision), Some(draft)).await?;
    Ok(Entry { revision: written.revision, document: written.document })
}
