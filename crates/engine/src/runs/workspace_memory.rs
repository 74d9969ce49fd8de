//! In-process state of a workspace that outlives a single run.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use super::run_hooks::BackupTaskGuard;

/// Restore and backup state of one workspace.
#[derive(Default)]
pub(crate) struct WorkspaceMemory {
    restored: AtomicBool,
    backed_up_serial: Mutex<Option<u64>>,
    backup_task: Mutex<Option<BackupTaskGuard>>,
}

impl WorkspaceMemory {
    pub(super) fn is_restored(&self) -> bool {
        self.restored.load(Ordering::Acquire)
    }

    pub(super) fn set_restored(&self) {
        self.restored.store(true, Ordering::Release);
    }

    /// Serial of the last state that was backed up.
    pub(super) fn backed_up_serial(&self) -> Option<u64> {
        *self.backed_up_serial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_backed_up_serial(&self, serial: Option<u64>) {
        *self.backed_up_serial.lock().unwrap_or_else(PoisonError::into_inner) = serial;
    }

    /// Replaces the continuous backup task; dropping the old guard stops the previous task.
    pub(super) fn set_backup_task(&self, follower: BackupTaskGuard) {
        *self.backup_task.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
    }

    pub(super) fn stop_backup_task(&self) {
        self.backup_task.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
