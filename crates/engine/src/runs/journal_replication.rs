//! Replication of the gateway's journal while terraform runs, and its return after the loss of the disk.
//!
//! The gateway gives every entry to the follower here and waits until the follower says that it is stored. While one version is
//! being stored, the next entries gather, and are stored together.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use capt_model::workspaces::WorkspaceKey;
use provider_gateway::{
    admin::JournalFollower,
    journal::{JournalReceipt, is_replicated},
};
use terraform_driver::workspace::WorkspaceDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    RunMetrics, WorkspaceMemory,
    journal_store::{JournalStore, JournalStoreError},
    state_backup::{self, BackupStore, BackupStoreError, StoredVersion},
};
use crate::{
    gateway::{GatewayHandle, ReplicatedJournal, import_entries, journal_source, workspace_entries},
    pipeline::PipelineError,
};

/// Pause before the gateway is looked for again: a command that needs it starts it.
const CONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Pause before entries that could not be stored are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The journal of one workspace.
#[derive(Clone)]
pub(super) struct JournalReplication {
    pub(super) key: WorkspaceKey,
    pub(super) data: PathBuf,
    pub(super) workspace: WorkspaceDir,
    pub(super) store: Arc<dyn BackupStore>,
    pub(super) memory: Arc<WorkspaceMemory>,
    pub(super) metrics: Arc<dyn RunMetrics>,
}

/// The copy that is kept while a gateway is followed.
struct Copy {
    journal: ReplicatedJournal,
    /// The state whose changes were dropped.
    pruned_by: Option<StoredVersion>,
    /// Order of the last entry.
    order: u64,
    is_saved: bool,
}

/// How following a gateway ended.
enum FollowEnd {
    Over,
    Disconnected,
}

impl JournalReplication {
    /// Brings entries back that a lost disk had. Returns whether there were any.
    pub(super) async fn restore(&self) -> Result<bool, PipelineError> {
        let Some(store) = self.store.journal() else { return Ok(false) };
        let fail =
            |source: BackupStoreError| PipelineError::StateBackup { doing: "restore the journal", source };
        let imported = self.claim(store).await.map_err(|error| fail(error.into()))?;
        if imported {
            // From now on the entries are here, and dropping them here counts.
            self.save_local(store).await.map_err(|error| fail(error.into()))?;
        }
        Ok(imported)
    }

    /// Claims the entries of the store, and imports them if they are from another disk.
    async fn claim(&self, store: &dyn JournalStore) -> Result<bool, JournalStoreError> {
        let failed = |error: BackupStoreError| JournalStoreError::Failed(error);
        let Some(bytes) = store.claim().await? else {
            self.memory.set_stored_journal(None);
            return Ok(false);
        };
        let found = ReplicatedJournal::parse(&bytes).map_err(|error| failed(error.into()))?;
        self.memory.set_stored_journal(Some(found.clone()));
        let source = journal_source(&self.data).map_err(|error| failed(error.into()))?;
        if found.source == source || found.entries.is_empty() {
            return Ok(false);
        }
        let count = found.entries.len();
        import_entries(&self.data, found.entries).await.map_err(|error| failed(error.into()))?;
        tracing::info!(key = %self.key, count, "imported the journal entries of another disk");
        Ok(true)
    }

    /// Follows the gateway of the data directory, whenever there is one, until `over` is cancelled. `is_ready` becomes true after
    /// the first batch was answered.
    pub(super) async fn run(self, over: CancellationToken, is_ready: watch::Sender<bool>) {
        loop {
            if let Some(mut follower) = self.connect().await
                && let FollowEnd::Over = self.follow(&mut follower, &over, &is_ready).await
            {
                return;
            }
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(CONNECT_INTERVAL) => {}
            }
        }
    }

    async fn connect(&self) -> Option<JournalFollower> {
        let server = GatewayHandle::find_running(&self.data).ok().flatten()?;
        // It is exiting, or starting.
        server.client().follow_journal(&self.key.to_string()).await.ok()
    }

    async fn follow(
        &self,
        follower: &mut JournalFollower,
        over: &CancellationToken,
        is_ready: &watch::Sender<bool>,
    ) -> FollowEnd {
        let mut copy = Copy {
            journal: ReplicatedJournal::default(),
            pruned_by: None,
            order: 0,
            // Nothing to store before the first batch.
            is_saved: true,
        };
        loop {
            tokio::select! {
                () = over.cancelled() => return FollowEnd::Over,
                batch = follower.next() => {
                    let Ok(Some(batch)) = batch else { return FollowEnd::Disconnected };
                    copy.order = copy.order.max(batch.order);
                    copy.journal.apply(batch);
                }
                () = tokio::time::sleep(RETRY_INTERVAL), if !copy.is_saved => {}
            }
            let receipt = self.store_copy(&mut copy).await;
            if follower.answer(&receipt).await.is_err() {
                return FollowEnd::Disconnected;
            }
            is_ready.send_replace(true);
        }
    }

    async fn store_copy(&self, copy: &mut Copy) -> JournalReceipt {
        let begun = Instant::now();
        match self.try_store(copy).await {
            Ok(()) => {
                copy.is_saved = true;
                self.metrics.record_journal_replication(begun.elapsed());
                JournalReceipt::Stored { order: copy.order }
            }
            Err(error) => {
                self.metrics.record_journal_failure();
                if copy.is_saved {
                    tracing::warn!(key = %self.key, %error, "the journal is not replicated, will retry");
                }
                copy.is_saved = false;
                let reason = error.to_string();
                match error {
                    JournalStoreError::Superseded(_) => JournalReceipt::Superseded { reason },
                    JournalStoreError::Changed(_) | JournalStoreError::Failed(_) => {
                        JournalReceipt::Failed { reason }
                    }
                }
            }
        }
    }

    async fn try_store(&self, copy: &mut Copy) -> Result<(), JournalStoreError> {
        let Some(store) = self.store.journal() else { return Ok(()) };
        copy.journal.source =
            journal_source(&self.data).map_err(|error| JournalStoreError::Failed(error.into()))?;
        let replicated = self.memory.backed_up_version();
        if replicated != copy.pruned_by {
            self.drop_contained(&mut copy.journal);
            copy.pruned_by = replicated;
        }
        self.save(store, &copy.journal).await
    }

    /// Drops the entries whose changes the replicated state contains. If the state cannot be read they stay.
    fn drop_contained(&self, journal: &mut ReplicatedJournal) {
        if let Ok(Some(state)) = state_backup::backed_up_state(&self.workspace, &self.memory) {
            journal.drop_contained(&self.key.to_string(), &state);
        }
    }

    async fn save(
        &self,
        store: &dyn JournalStore,
        journal: &ReplicatedJournal,
    ) -> Result<(), JournalStoreError> {
        let bytes = journal.to_bytes().map_err(|error| JournalStoreError::Failed(error.into()))?;
        match store.save(bytes.clone()).await {
            Err(JournalStoreError::Changed(_)) => {
                // What another disk has left comes back here as a batch of the gateway.
                self.claim(store).await?;
                store.save(bytes).await?;
            }
            saved => saved?,
        }
        self.memory.set_stored_journal(Some(journal.clone()));
        Ok(())
    }

    /// Stores what the journal on the disk has of this workspace: the last word after a run.
    pub(super) async fn finish(&self) {
        let Some(store) = self.store.journal() else { return };
        if let Err(error) = self.save_local(store).await {
            self.metrics.record_journal_failure();
            tracing::warn!(key = %self.key, %error, "replicated journal entries stay until the next run");
        }
    }

    async fn save_local(&self, store: &dyn JournalStore) -> Result<(), JournalStoreError> {
        let failed = |error: crate::gateway::JournalError| JournalStoreError::Failed(error.into());
        let mut entries =
            workspace_entries(&self.data, &self.key.to_string()).map_err(|error| failed(error.into()))?;
        entries.retain(is_replicated);
        let source = journal_source(&self.data).map_err(|error| failed(error.into()))?;
        let mut journal = ReplicatedJournal { source, entries };
        self.drop_contained(&mut journal);
        let stored = self.memory.stored_journal();
        if stored.as_ref() == Some(&journal) || (stored.is_none() && journal.entries.is_empty()) {
            return Ok(());
        }
        self.save(store, &journal).await
    }
}

#[cfg(test)]
#[path = "journal_replication/tests.rs"]
mod tests;
