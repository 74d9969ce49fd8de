//! Where the journal entries of a workspace are replicated to.

use futures::future::BoxFuture;
use thiserror::Error;

use super::state_backup::BackupStoreError;

/// Why the entries could not be stored or read.
#[derive(Debug, Error)]
pub enum JournalStoreError {
    /// A newer leader has claimed the entries; this one must not change anything any more.
    #[error(transparent)]
    Superseded(BackupStoreError),
    /// They were written by somebody else, or whether the last write arrived is unknown. They have to be claimed again.
    #[error(transparent)]
    Changed(BackupStoreError),
    /// The store is unavailable, or they do not fit into it.
    #[error(transparent)]
    Failed(BackupStoreError),
}

/// Stores the journal entries of one workspace outside its disk.
pub trait JournalStore: Send + Sync {
    /// Takes the entries over from earlier leaders, which cannot write them afterwards, and reads them; `None` if there are none.
    fn claim(&self) -> BoxFuture<'_, Result<Option<Vec<u8>>, JournalStoreError>>;

    /// Replaces the entries; returns once they are durable. They have to be claimed before.
    fn save(&self, entries: Vec<u8>) -> BoxFuture<'_, Result<(), JournalStoreError>>;
}
