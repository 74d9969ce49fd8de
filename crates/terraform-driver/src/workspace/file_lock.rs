//! Locks that a dead owner releases by dying.
//!
//! They are `flock`s: the kernel drops them with the last process that holds the open file. Nothing has
//! to be cleaned up after a kill, and a lock that can be taken is the proof that its owner is gone.

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

/// Why a lock was not taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("{} is in use by {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// The lock file itself cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A held lock; dropping it, or dying, releases it.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the lock now or says who has it. `holder` is written into the file for the next one to read.
    pub fn take(path: &Path, holder: &str) -> Result<Self, LockError> {
        let io = |source| FileError::new("lock", path, source);
        let mut file = open(path)?;
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

    /// The open file. A child that inherits it holds the lock too, for as long as it lives.
    pub fn share(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }
}

/// Whether anybody holds the lock. A lock file that was never made is free.
pub fn is_held(path: &Path) -> Result<bool, FileError> {
    if !path.exists() {
        return Ok(false);
    }
    let file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(FileError::new("lock", path, errno.into())),
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| FileError::new("open", path, source))
}
