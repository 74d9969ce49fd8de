//! Atomic file operations.
//!
//! Every write goes to a temporary file in the same directory, is fsynced and renamed over its target, so a kill or a full
//! disk leaves the old contents.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use capt_util::durable_file;
use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// A file operation failed.
#[derive(Debug, Error)]
pub enum FileError {
    /// The disk is full; the file is unchanged.
    #[error("no space left on the disk for {}; free some space and retry", path.display())]
    DiskFull {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// Any other error of the operating system.
    #[error("cannot {verb} {}", path.display())]
    Io {
        /// The operation: `read`, `write`, `create`.
        verb: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file that capt wrote does not parse.
    #[error("{} is not valid JSON written by capt", path.display())]
    InvalidJson {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
}

impl FileError {
    /// Wraps an I/O error; a full disk has its own variant because its remedy differs.
    pub fn new(verb: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            Self::DiskFull { path: path.to_owned() }
        } else {
            Self::Io { verb, path: path.to_owned(), source }
        }
    }
}

/// Creates a directory and its parents with mode 0700.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| FileError::new("create", path, source))
}

/// Replaces the contents of `path` atomically. `secret` files have mode 0600, others 0644 within a 0700 directory.
pub fn write_atomic(path: &Path, bytes: &[u8], secret: bool) -> Result<(), FileError> {
    let mode = if secret { 0o600 } else { 0o644 };
    durable_file::write_atomic(path, bytes, mode).map_err(|source| FileError::new("write", path, source))
}

/// Writes a value as JSON, atomically and with mode 0600. Skips the write if the file is unchanged.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|source| FileError::InvalidJson { path: path.to_owned(), source })?;
    if read_optional(path)?.as_deref() == Some(text.as_slice()) {
        return Ok(());
    }
    write_atomic(path, &text, true)
}

/// Reads a JSON value; `None` if the file does not exist.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|source| FileError::InvalidJson { path: path.to_owned(), source })
}

/// Reads a file that may be absent.
pub fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        // With a file where a directory should be, nothing below it exists either.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(FileError::new("read", path, source)),
    }
}

/// Reads a file below `dir` that may be absent. Code of a template can write to `dir`, so no symbolic link is followed: the caller
/// can read more than that code.
pub fn read_beneath(dir: &Path, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let Ok(relative) = path.strip_prefix(dir) else { return read_optional(path) };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = rustix::fs::open(dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .and_then(|dir| rustix::fs::openat2(dir, relative, flags, Mode::empty(), resolve));
    let fail = |source| FileError::new("read", path, source);
    match opened {
        Ok(file) => {
            let mut bytes = Vec::new();
            File::from(file).read_to_end(&mut bytes).map_err(fail)?;
            Ok(Some(bytes))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // A kernel or container runtime that is older than the system call.
        Err(Errno::NOSYS) => read_optional(path),
        Err(errno) => Err(fail(errno.into())),
    }
}

/// Reads at most the last `limit` bytes of a file that may be absent.
pub fn read_tail(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
    let fail = |source| FileError::new("read", path, source);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(fail)?,
    };
    let size = file.metadata().map_err(fail)?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(limit))).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(fail)?;
    Ok(Some(bytes))
}

/// Removes a file that may be absent.
pub fn remove_optional(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove", path, error)),
        _ => Ok(()),
    }
}

/// Opens a file for appending; creates it with mode 0600.
pub fn open_append(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| FileError::new("open", path, source))
}
