//! Store errors.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::ErrorCode;

use super::types::Entry;

/// The requested history has been compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("history before revision {oldest} has been compacted")]
pub struct Expired {
    /// Oldest available revision.
    pub oldest: u64,
}

/// Why a write failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The precondition does not hold; contains the current object.
    #[error("the stored object does not match the write's precondition")]
    Conflict(Option<Entry>),
    /// A guard has changed or was deleted.
    #[error("an object that guards the write has changed")]
    GuardChanged,
    /// The write could not be made durable.
    #[error("failed to store the write")]
    Io(#[from] StoreError),
}

/// Why a store cannot be opened or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another process has locked the directory.
    #[error("the data directory {} is in use by {holder}; stop that process or choose another directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The lock holder, as far as known.
        holder: String,
    },
    /// The format is newer than this version supports.
    #[error(
        "{} has format {found}, but this version supports formats up to {known}; use a newer version or another directory",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Format of the database.
        found: i64,
        /// Newest supported format.
        known: i64,
    },
    /// The database is corrupt or not a store.
    #[error(
        "{} is corrupt or not a store ({detail}); it was not modified: restore a backup, or move it away to start empty",
        path.display()
    )]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// The cause.
        detail: String,
    },
    /// No space left on device.
    #[error("no space left on device for {}; free some space and retry", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The path is not writable.
    #[error("{} is not writable; change its owner or the mount options, or choose another directory", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// Verb of the message.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// An `SQLite` error.
    #[error("cannot {doing} {}", path.display())]
    Sqlite {
        /// Verb of the message.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Arc<rusqlite::Error>,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Classifies an I/O error.
    pub fn io(doing: &'static str, path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            _ => Self::Io { doing, path, source: Arc::new(error) },
        }
    }

    /// Classifies an `SQLite` error.
    pub fn sqlite(doing: &'static str, path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt { path, detail: error.to_string() }
            }
            _ => Self::Sqlite { doing, path, source: Arc::new(error) },
        }
    }

    /// The writer thread could not be started.
    pub fn thread(error: io::Error) -> Self {
        Self::Io { doing: "start a thread for", path: PathBuf::from("the store"), source: Arc::new(error) }
    }
}
