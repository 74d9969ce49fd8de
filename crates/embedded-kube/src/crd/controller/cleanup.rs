//! The end of a CRD: its objects first, then itself.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{Cleaner, put};
use crate::{
    clock,
    crd::{
        FINALIZER,
        resources::any_resource,
        status::{self, Condition},
        view,
    },
    object::{Meta, MetaMut},
    registry::Resource,
    store::{Expect, Page, Store, WriteError},
};

const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(1);

/// The cleanup of one CRD.
pub(super) struct Cleanup {
    pub store: Store,
    pub cleaner: Arc<dyn Cleaner>,
    pub key: String,
}

impl Cleanup {
    /// Runs until the CRD is gone, or no longer waits for us.
    pub async fn run(self) {
        let mut pause = SOON;
        while let Some(crd) = self.waiting() {
            if view::is_true(&crd, "Established") {
                self.announce().await;
                let resource = Arc::new(any_resource(&crd));
                if self.delete_all(&resource).await {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LATER);
                    continue;
                }
                self.finish("InstanceDeletionCompleted", "removed all instances").await;
            } else {
                self.finish("NeverEstablished", "resource was never established").await;
            }
        }
    }

    /// The CRD, as long as it waits for its objects to be gone.
    fn waiting(&self) -> Option<Value> {
        let crd = self.store.get(&self.key)?.document.value();
        (crd.is_terminating() && crd.finalizers().iter().any(|name| name == FINALIZER)).then_some(crd)
    }

    /// Deletes what is not being deleted yet; whether anything is left.
    async fn delete_all(&self, resource: &Arc<Resource>) -> bool {
        let prefix = format!("{}/", resource.storage);
        let Ok(snapshot) = self.store.list(&prefix, &Page::default()) else { return true };
        for (key, entry) in &snapshot.entries {
            if entry.document.value().is_terminating() {
                continue;
            }
            let mut parts = key.strip_prefix(prefix.as_str()).unwrap_or_default().splitn(2, '/');
            let (namespace, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let answer =
                self.cleaner.delete(Arc::clone(resource), namespace.to_owned(), name.to_owned()).await;
            if let Err(failure) = answer.as_ref()
                && failure.code() != 404
            {
                tracing::warn!(%failure, key = %key, "an object of a definition that goes could not be deleted");
            }
        }
        let rest = Page { limit: Some(1), ..Page::default() };
        self.store.list(&prefix, &rest).map_or(true, |snapshot| !snapshot.entries.is_empty())
    }

    async fn announce(&self) {
        self.change(|crd| {
            let condition = Condition {
                kind: "Terminating",
                status: "True",
                reason: "InstanceDeletionInProgress",
                message: "CustomResource deletion is in progress".to_owned(),
            };
            status::set(crd, &condition, clock::now());
        })
        .await;
    }

    async fn finish(&self, reason: &'static str, message: &str) {
        self.change(|crd| {
            let condition =
                Condition { kind: "Terminating", status: "False", reason, message: message.to_owned() };
            status::set(crd, &condition, clock::now());
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

    /// Changes the CRD, however often others do so at the same time. Without finalizers it is gone.
    async fn change(&self, edit: impl Fn(&mut Value)) {
        while let Some(entry) = self.store.get(&self.key) {
            let old = entry.document.value();
            let mut new = old.clone();
            edit(&mut new);
            if new == old {
                return;
            }
            let is_over = new.is_terminating() && new.finalizers().is_empty();
            let result = if is_over {
                self.store.write(&self.key, Expect::At(entry.revision), None).await.map(drop)
            } else {
                put(&self.store, &self.key, entry.revision, &new).await.map(drop)
            };
            match result {
                Err(WriteError::Conflict(_)) => {}
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, key = self.key, "a definition that goes could not be written");
                    tokio::time::sleep(LATER).await;
                    return;
                }
            }
        }
    }
}
