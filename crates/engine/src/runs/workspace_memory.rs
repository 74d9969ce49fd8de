//! In-process state of a workspace that outlives a single run.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::gateway::ReplicatedJournal;

use super::{run_hooks::BackupTaskGuard, state_backup::StoredVersion};

/// Restore and backup state of one workspace.
#[derive(Default)]
pub(crate) struct WorkspaceMemory {
    restored: AtomicBool,
    backed_up: Mutex<Option<StoredVersion>>,
    backup_task: Mutex<Option<BackupTaskGuard>>,
    stored_journal: Mutex<Option<ReplicatedJournal>>,
}

impl WorkspaceMemory {
    pub(super) fn is_restored(&self) -> bool {
        self.restored.load(Ordering::Acquire)
    }

    pub(super) fn set_restored(&self) {
        self.restored.store(true, Ordering::Release);
    }

    /// The last version of the state that was backed up.
    pub(super) fn backed_up_version(&self) -> Option<StoredVersion> {
        self.backed_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_backed_up_version(&self, version: Option<StoredVersion>) {
        *self.backed_up.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    /// The journal entries that are known to be in the store.
    pub(super) fn stored_journal(&self) -> Option<ReplicatedJournal> {
        self.stored_journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_stored_journal(&self, journal: Option<ReplicatedJournal>) {
        *self.stored_journal.lock().unwrap_or_else(PoisonError::into_inner) = journal;
    }

    /// Replaces the continuous backup task; dropping the old guard stops the previous task.
    pub(super) fn set_backup_task(&self, follower: BackupTaskGuard) {
        *self.backup_task.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
    }

    pub(super) fn stop_backup_task(&self) {
        self.backup_task.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
