//! File locks (`flock`).
//!
//! The kernel releases a lock with the last process that holds the open file. A kill leaves nothing to clean up, and a lock
//! that can be acquired proves that its owner is gone.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use thiserror::Error;

use super::files::FileError;

/// Why a lock was not acquired.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is in use by {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder's description of itself.
        holder: String,
    },
    /// The lock file itself cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// An acquired lock; released on drop or when the process exits.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Acquires the lock without waiting, or reports the holder. `holder` is written into the file for other processes.
    pub fn acquire(path: &Path, holder: &str) -> Result<Self, LockError> {
        let io = |source| FileError::new("lock", path, source);
        let mut file = open_lock_file(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(io)?;
                let text = text.trim();
                let holder = if text.is_empty() { "another process" } else { text }.to_owned();
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            Err(errno) => return Err(io(errno.into()).into()),
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        file.write_all(holder.as_bytes()).map_err(io)?;
        Ok(Self { file })
    }

    /// Duplicates the open file. A child that inherits it holds the lock until it exits.
    pub fn try_clone_file(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }
}

/// Whether a process holds the lock. A missing lock file is free.
pub fn is_lock_held(path: &Path) -> Result<bool, FileError> {
    if !path.exists() {
        return Ok(false);
    }
    let file = open_lock_file(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(FileError::new("lock", path, errno.into())),
    }
}

fn open_lock_file(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| FileError::new("open", path, source))
}
