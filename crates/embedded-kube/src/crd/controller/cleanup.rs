//! Deletion of a CRD: first its objects, then the CRD.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{ObjectDeleter, write_object};
use crate::{
    clock,
    crd::{
        FINALIZER, accessors,
        resources::storage_resource,
        status::{self, CrdCondition},
    },
    object::{MetaAccessor, MetaAccessorMut},
    registry::Resource,
    store::{ListOptions, Precondition, Store, WriteError},
};

const INITIAL_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Cleanup of one CRD.
pub(super) struct Cleanup {
    pub store: Store,
    pub deleter: Arc<dyn ObjectDeleter>,
    pub key: String,
}

impl Cleanup {
    /// Runs until the CRD is deleted or no longer has our finalizer.
    pub async fn run(self) {
        let mut pause = INITIAL_DELAY;
        while let Some(crd) = self.terminating_crd() {
            if accessors::is_condition_true(&crd, "Established") {
                self.set_in_progress().await;
                let resource = Arc::new(storage_resource(&crd));
                if self.delete_all(&resource).await {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_DELAY);
                    continue;
                }
                self.finish("InstanceDeletionCompleted", "removed all instances").await;
            } else {
                self.finish("NeverEstablished", "resource was never established").await;
            }
        }
    }

    /// The CRD, while it waits for its objects to be deleted.
    fn terminating_crd(&self) -> Option<Value> {
        let crd = self.store.get(&self.key)?.document.value();
        (crd.is_terminating() && crd.finalizers().iter().any(|name| name == FINALIZER)).then_some(crd)
    }

    /// Deletes objects that are not terminating yet; returns whether any remain.
    async fn delete_all(&self, resource: &Arc<Resource>) -> bool {
        let prefix = format!("{}/", resource.storage_prefix);
        let Ok(snapshot) = self.store.list(&prefix, &ListOptions::default()) else { return true };
        for (key, entry) in &snapshot.entries {
            if entry.document.value().is_terminating() {
                continue;
            }
            let mut parts = key.strip_prefix(prefix.as_str()).unwrap_or_default().splitn(2, '/');
            let (namespace, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let answer =
                self.deleter.delete(Arc::clone(resource), namespace.to_owned(), name.to_owned()).await;
            if let Err(failure) = answer.as_ref()
                && failure.code() != 404
            {
                tracing::warn!(%failure, key = %key, "failed to delete a custom object of a terminating CRD");
            }
        }
        let rest = ListOptions { limit: Some(1), ..ListOptions::default() };
        self.store.list(&prefix, &rest).map_or(true, |snapshot| !snapshot.entries.is_empty())
    }

    async fn set_in_progress(&self) {
        self.update_crd(|crd| {
            let condition = CrdCondition {
                kind: "Terminating",
                status: "True",
                reason: "InstanceDeletionInProgress",
                message: "CustomResource deletion is in progress".to_owned(),
            };
            status::set_condition(crd, &condition, clock::now());
        })
        .await;
    }

    async fn finish(&self, reason: &'static str, message: &str) {
        self.update_crd(|crd| {
            let condition =
                CrdCondition { kind: "Terminating", status: "False", reason, message: message.to_owned() };
            status::set_condition(crd, &condition, clock::now());
            let mut finalizers = crd.finalizers();
            finalizers.retain(|name| name != FINALIZER);
            if finalizers.is_empty() {
                crd.drop_meta("finalizers");
            } else {
                crd.set_meta("finalizers", finalizers);
            }
        })
        .await;
    }

    /// Updates the CRD, retrying on conflicts. It is deleted once it has no finalizers.
    async fn update_crd(&self, edit: impl Fn(&mut Value)) {
        while let Some(entry) = self.store.get(&self.key) {
            let old = entry.document.value();
            let mut new = old.clone();
            edit(&mut new);
            if new == old {
                return;
            }
            let is_over = new.is_terminating() && new.finalizers().is_empty();
            let result = if is_over {
                self.store.write(&self.key, Precondition::Revision(entry.revision), None).await.map(drop)
            } else {
                write_object(&self.store, &self.key, entry.revision, &new).await.map(drop)
            };
            match result {
                Err(WriteError::Conflict(_)) => {}
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, key = self.key, "failed to update a terminating CRD");
                    tokio::time::sleep(MAX_DELAY).await;
                    return;
                }
            }
        }
    }
}
