//! Backs up the state of a workspace in Secrets in the object's namespace.

use std::{sync::Arc, time::Instant};

use capt_engine::runs::{BackupStore, BackupStoreError};
use capt_kube::k8s::{
    FencingToken,
    state_store::{KubeStateStore, StateOwner},
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

    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>> {
        Box::pin(async move {
            let found =
                self.state_store.load(&self.state_owner.namespace, &self.state_owner.workspace).await?;
            Ok(found.map(|it| it.payload))
        })
    }
}
