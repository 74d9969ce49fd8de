//! Backs up the state of a workspace in Secrets in the object's namespace.

use std::{sync::Arc, time::Instant};

use capt_engine::runs::{BackupStore, BackupStoreError, JournalStore, JournalStoreError};
use capt_kube::k8s::{
    FencingToken,
    state_store::{KubeJournal, KubeStateStore, StateOwner, StateStoreError},
};
use futures::future::BoxFuture;
use terraform_driver::workspace::WorkspaceBackup;

use crate::common::ControllerMetricsSink;

/// Backup store of one workspace, on top of the state Secrets.
pub struct SecretBackupStore {
    /// Reads and writes the state Secrets.
    pub state_store: KubeStateStore,
    /// Owner of the state Secrets.
    pub state_owner: StateOwner,
    /// Fencing token; increases with every change of leadership.
    pub fence: FencingToken,
    /// Records how long a backup takes.
    pub metrics: Arc<dyn ControllerMetricsSink>,
    /// The Secret with the journal entries.
    pub journal: KubeJournal,
}

impl BackupStore for SecretBackupStore {
    fn save(&self, backup: WorkspaceBackup) -> BoxFuture<'_, Result<(), BackupStoreError>> {
        Box::pin(async move {
            let begun = Instant::now();
            self.state_store.save(&self.state_owner, &backup, self.fence).await?;
            self.metrics.state_backed_up(begun.elapsed());
            Ok(())
        })
    }

    fn edits(&self) -> BoxFuture<'_, Result<u64, BackupStoreError>> {
        Box::pin(async move {
            let StateOwner { namespace, workspace, .. } = &self.state_owner;
            Ok(self.state_store.edits(namespace, workspace).await?)
        })
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>> {
        Box::pin(async move {
            let found =
                self.state_store.load(&self.state_owner.namespace, &self.state_owner.workspace).await?;
            Ok(found.map(|it| it.payload))
        })
    }

    fn journal(&self) -> Option<&dyn JournalStore> {
        Some(self)
    }
}

impl JournalStore for SecretBackupStore {
    fn claim(&self) -> BoxFuture<'_, Result<Option<Vec<u8>>, JournalStoreError>> {
        Box::pin(async move { self.journal.claim().await.map_err(journal_error) })
    }

    fn save(&self, entries: Vec<u8>) -> BoxFuture<'_, Result<(), JournalStoreError>> {
        Box::pin(async move { self.journal.save(&entries).await.map_err(journal_error) })
    }
}

fn journal_error(error: StateStoreError) -> JournalStoreError {
    match error {
        StateStoreError::Fenced { .. } => JournalStoreError::Superseded(error.into()),
        StateStoreError::JournalChanged { .. } => JournalStoreError::Changed(error.into()),
        other => JournalStoreError::Failed(other.into()),
    }
}
