//! The state of a workspace, in Secrets beside the object that it belongs to.
//!
//! # What holds
//! - A copy is whole or not there. Pages are written to the slot that is not true, then one commit is flipped. Whoever is
//!   killed in between leaves the old copy true. A reader checks the sum of what it reads.
//! - A copy never goes back: a state of the same history must be further along, and a new history may begin only where the
//!   old one ended with nothing left.
//! - A leader of the past writes nothing. Every Secret carries the number of the leader that wrote it last, and is replaced
//!   only in the version that was seen; a new leader puts its number on the commit before it touches a page.
//! - No deletion takes a copy before [`Vault::release`]: not of the namespace, not of the owner, not in the foreground. All
//!   Secrets that a workspace needs are made by its first save, because none can be made in a namespace that is being
//!   deleted.

mod backend;
mod error;
mod layout;
mod load;
mod pack;
mod save;
mod secrets;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use terraform_driver::state::Version;

pub use self::{
    backend::{BackendState, decode, secret_name},
    error::VaultError,
};
use super::{call::Kube, leader::Fence, objects::Removal};
use crate::api::names::IN_USE_FINALIZER;

/// What a workspace needs to be destroyed. Both are opaque to whoever reads the Secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Deposit {
    /// The state file. Left out, the one that is kept stays.
    pub state: Option<Vec<u8>>,
    /// Everything else that a destroy needs. Left out, the one that is kept stays.
    pub bundle: Option<Vec<u8>>,
}

/// States hold passwords.
impl std::fmt::Debug for Deposit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Deposit")
            .field("state", &self.state.as_ref().map(Vec::len))
            .field("bundle", &self.bundle.as_ref().map(Vec::len))
            .finish()
    }
}

/// Where a workspace lives, and with whom it goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Home {
    /// The namespace of the object that it belongs to.
    pub namespace: String,
    /// The name of the workspace.
    pub workspace: String,
    /// The object that it belongs to; none for one that was retained.
    pub owner: Option<OwnerReference>,
    /// The Cluster that it belongs to.
    pub cluster: Option<String>,
}

impl Home {
    fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.workspace)
    }
}

/// What became of a deposit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// It is kept now.
    Written,
    /// It was kept already; nothing was written.
    Unchanged,
    /// The state that is kept is further along, and was left alone. What else was in the deposit is kept.
    Older {
        /// The one that is kept.
        kept: Version,
    },
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// State and bundle, as far as there are any.
    pub deposit: Deposit,
    /// Lineage and serial of the state.
    pub version: Option<Version>,
    /// The true copy of something was damaged, and this is the one before it.
    pub is_fallback: bool,
}

/// Keeps states. Cheap to clone; clones wait for each other where they must.
#[derive(Debug, Clone)]
pub struct Vault {
    kube: Kube,
    page: usize,
    turns: Arc<Mutex<HashMap<String, Turn>>>,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

impl Vault {
    /// In this cluster.
    pub fn new(kube: Kube) -> Self {
        Self { kube, page: pack::LARGEST_PAGE, turns: Arc::default() }
    }

    /// Keeps a deposit, if it is newer than what is kept. Returns when it is safe.
    pub async fn save(&self, home: &Home, deposit: &Deposit, fence: Fence) -> Result<Saved, VaultError> {
        // Two saves of one workspace at a time would overwrite each other's pages, and the commit of either would be wrong.
        let turn = self.turn(&home.shown());
        let _held = turn.lock().await;
        save::save(self, home, deposit, fence).await
    }

    /// What is kept of a workspace; none if nothing is.
    pub async fn load(&self, namespace: &str, workspace: &str) -> Result<Option<Loaded>, VaultError> {
        load::load(&self.kube, namespace, workspace).await
    }

    /// Puts owner, labels and finalizer back on all Secrets of a workspace that lack them, as after a move to another
    /// cluster. Gives the number of Secrets that were changed.
    pub async fn protect(&self, home: &Home) -> Result<usize, VaultError> {
        let mut changed = 0;
        for meta in secrets::all(&self.kube, &home.namespace, &home.workspace).await? {
            if let Some(patch) = secrets::missing(&meta, home) {
                let secret = Secret { metadata: meta, ..Secret::default() };
                self.kube.patch_metadata(&secret, patch).await?;
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Lets go of everything that is kept of a workspace, and gives the number of Secrets. For workspaces whose state is
    /// proven empty, or that are to stay without us. The commit goes last, so that half a release is not mistaken for less.
    pub async fn release(&self, namespace: &str, workspace: &str) -> Result<usize, VaultError> {
        let mut found = secrets::all(&self.kube, namespace, workspace).await?;
        let commit = layout::commit_name(workspace);
        found.sort_by_key(|meta| meta.name.as_ref() == Some(&commit));
        let count = found.len();
        for metadata in found {
            let secret = Secret { metadata, ..Secret::default() };
            if secret.metadata.deletion_timestamp.is_none() {
                self.kube.delete(&secret, Removal::Background).await?;
            }
            self.kube.remove_finalizers(&secret, &[IN_USE_FINALIZER]).await?;
        }
        Ok(count)
    }

    /// Leaves everything that is kept of a workspace where it is, and nobody's: its resources stay, and whoever takes
    /// the workspace up again finds its state. Gives the number of Secrets.
    pub async fn leave(&self, namespace: &str, workspace: &str) -> Result<usize, VaultError> {
        let found = secrets::all(&self.kube, namespace, workspace).await?;
        let count = found.len();
        for metadata in found {
            let secret = Secret { metadata, ..Secret::default() };
            self.kube.patch_metadata(&secret, serde_json::json!({ "ownerReferences": null })).await?;
            self.kube.remove_finalizers(&secret, &[IN_USE_FINALIZER]).await?;
        }
        Ok(count)
    }

    fn turn(&self, workspace: &str) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(workspace.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests;
