//! What can go wrong in a store.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::ErrorCode;

use super::words::Entry;

/// The history that was asked for is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the history before revision {oldest} is gone")]
pub struct Expired {
    /// Oldest revision that is still known.
    pub oldest: u64,
}

/// Why a write did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// There is something else than the writer believed.
    #[error("the object is not what the writer expected")]
    Conflict(Option<Entry>),
    /// Something that the write relies on has changed, or is gone.
    #[error("an object that the write relies on has changed")]
    Unguarded,
    /// It could not be made durable.
    #[error("the write could not be stored")]
    Io(#[from] StoreError),
}

/// Why a store cannot be opened or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Somebody else has it open.
    #[error("the data directory {} is in use by {holder}; stop that one or choose another directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who, as far as is known.
        holder: String,
    },
    /// A later version of this program made it.
    #[error(
        "{} has format {found}, and this version knows formats up to {known}; use a newer version, or another directory",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It is not what we wrote.
    #[error(
        "{} is damaged or not a store ({detail}); it was left as it is: restore a copy, or move it away to begin anew",
        path.display()
    )]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// No space left.
    #[error("no space is left for {}; free some and try again", path.display())]
    Full {
        /// What could not grow.
        path: PathBuf,
    },
    /// We may not write there.
    #[error("{} cannot be written; its owner or the mount's mode must change, or choose another directory", path.display())]
    ReadOnly {
        /// What could not be written.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// In the words of the message.
        doing: &'static str,
        /// What it was about.
        path: PathBuf,
        /// The system's words.
        source: Arc<io::Error>,
    },
    /// The database refused.
    #[error("cannot {doing} {}", path.display())]
    Sqlite {
        /// In the words of the message.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// Its words.
        source: Arc<rusqlite::Error>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Sorts an error of the file system.
    pub fn io(doing: &'static str, path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            _ => Self::Io { doing, path, source: Arc::new(error) },
        }
    }

    /// Sorts an error of the database.
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

    /// The system gives us no thread.
    pub fn thread(error: io::Error) -> Self {
        Self::Io { doing: "start a thread for", path: PathBuf::from("the store"), source: Arc::new(error) }
    }
}
