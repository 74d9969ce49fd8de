//! State store: the Terraform state of a workspace in Secrets, in the namespace of its owner.
//!
//! # Guarantees
//! - Atomicity: pages are written to the free slot, then one commit Secret is updated. A crash in between leaves the old
//!   copy current. Readers verify the checksum.
//! - Monotonicity: a state of the same lineage must have a higher serial; another lineage is accepted only if the stored
//!   state manages no resources.
//! - Fencing: a former leader cannot write. Every Secret carries the fencing token of its last writer and is replaced with
//!   a resourceVersion precondition; a new leader writes its token to the commit before it touches a page.
//! - Edits: a state that a person puts in its place is counted in the commit. A save that does not know of it is refused.
//! - Durability: finalizers protect the Secrets from every deletion (namespace, owner, foreground) until
//!   [`KubeStateStore::release`]. The first save creates all Secrets, because none can be created in a terminating namespace.

mod backend;
mod compress;
mod edit;
mod error;
mod journal;
mod layout;
mod load;
mod save;
mod secrets;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use capt_kinds::api::names::IN_USE_FINALIZER;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use terraform_driver::{state::StateVersion, workspace::WorkspaceBackup};

pub use self::{
    backend::{BackendState, backend_secret_name, decode_backend_state},
    edit::{StoredPlace, StoredVersion, StoredWorkspace},
    error::StateStoreError,
    journal::KubeJournal,
};
use super::{kube_client::KubeClient, leader::FencingToken, objects::DeletionPropagation};

/// The workspace and the object that owns its state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateOwner {
    /// Namespace of the owner.
    pub namespace: String,
    /// The name of the workspace.
    pub workspace: String,
    /// The owner; `None` for a retained workspace.
    pub owner: Option<OwnerReference>,
    /// The Cluster of the workspace.
    pub cluster: Option<String>,
}

impl StateOwner {
    fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.workspace)
    }
}

/// Result of a save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveOutcome {
    /// Saved.
    Written,
    /// Already stored; nothing was written.
    Unchanged,
    /// The stored state is newer and was not overwritten. The bundle was saved.
    Older {
        /// Version of the stored state.
        kept: StateVersion,
    },
}

/// A loaded workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedState {
    /// The stored state and bundle.
    pub payload: WorkspaceBackup,
    /// Lineage and serial of the state.
    pub version: Option<StateVersion>,
    /// Whether a current copy was damaged and the previous one was loaded.
    pub is_fallback: bool,
}

/// Stores states in Secrets. Cheap to clone; clones serialise saves per workspace.
#[derive(Debug, Clone)]
pub struct KubeStateStore {
    kube: KubeClient,
    page_size: usize,
    save_locks: Arc<Mutex<HashMap<String, SaveLock>>>,
}

type SaveLock = Arc<tokio::sync::Mutex<()>>;

impl KubeStateStore {
    /// A store in this cluster.
    pub fn new(kube: KubeClient) -> Self {
        Self { kube, page_size: compress::MAX_PAGE_BYTES, save_locks: Arc::default() }
    }

    /// Saves the payload if it is newer than the stored one. Returns once it is durable.
    pub async fn save(
        &self,
        home: &StateOwner,
        deposit: &WorkspaceBackup,
        fence: FencingToken,
    ) -> Result<SaveOutcome, StateStoreError> {
        // Concurrent saves of one workspace would overwrite each other's pages and invalidate the commit.
        let turn = self.save_lock(&home.display_name());
        let _held = turn.lock().await;
        save::save(self, home, deposit, fence).await
    }

    /// Loads a workspace; `None` if nothing is stored.
    pub async fn load(
        &self,
        namespace: &str,
        workspace: &str,
    ) -> Result<Option<LoadedState>, StateStoreError> {
        load::load(&self.kube, namespace, workspace).await
    }

    /// How often the stored state was replaced by hand; zero if nothing is stored.
    pub async fn edits(&self, namespace: &str, workspace: &str) -> Result<u64, StateStoreError> {
        Ok(load::load_commit(&self.kube, namespace, workspace).await?.map_or(0, |(_, commit)| commit.edits))
    }

    /// Restores missing owner references, labels and finalizers, as after `clusterctl move`; returns the number of changed
    /// Secrets.
    pub async fn protect(&self, home: &StateOwner) -> Result<usize, StateStoreError> {
        let mut changed = 0;
        for meta in secrets::list_metadata(&self.kube, &home.namespace, &home.workspace).await? {
            if let Some(patch) = secrets::protection_patch(&meta, home) {
                let secret = Secret { metadata: meta, ..Secret::default() };
                self.kube.patch_metadata(&secret, patch).await?;
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Deletes all Secrets of a workspace and returns their number. For workspaces whose state is verified empty. The commit
    /// is deleted last, so that an interrupted release is detected.
    pub async fn release(&self, namespace: &str, workspace: &str) -> Result<usize, StateStoreError> {
        let mut found = secrets::list_metadata(&self.kube, namespace, workspace).await?;
        let commit = layout::commit_name(workspace);
        found.sort_by_key(|meta| meta.name.as_ref() == Some(&commit));
        let count = found.len();
        for metadata in found {
            let secret = Secret { metadata, ..Secret::default() };
            if secret.metadata.deletion_timestamp.is_none() {
                self.kube.delete(&secret, DeletionPropagation::Background).await?;
            }
            self.kube.remove_finalizers(&secret, &[IN_USE_FINALIZER]).await?;
        }
        Ok(count)
    }

    /// Orphans all Secrets of a retained workspace: the resources stay, and a later owner finds the state. Returns the number
    /// of Secrets.
    pub async fn retain(&self, namespace: &str, workspace: &str) -> Result<usize, StateStoreError> {
        let found = secrets::list_metadata(&self.kube, namespace, workspace).await?;
        let count = found.len();
        for metadata in found {
            let secret = Secret { metadata, ..Secret::default() };
            self.kube.patch_metadata(&secret, serde_json::json!({ "ownerReferences": null })).await?;
            self.kube.remove_finalizers(&secret, &[IN_USE_FINALIZER]).await?;
        }
        Ok(count)
    }

    /// The replicated journal of a workspace.
    pub fn journal(&self, home: &StateOwner, fence: FencingToken) -> KubeJournal {
        KubeJournal::new(self.kube.clone(), home.clone(), fence)
    }

    fn save_lock(&self, workspace: &str) -> SaveLock {
        let mut turns = self.save_locks.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(workspace.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests;
