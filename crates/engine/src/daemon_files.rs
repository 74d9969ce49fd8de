//! Files of a daemon: its process record, its log, and the lock that it holds for its whole lifetime.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use terraform_driver::{
    exec::ProcessId,
    workspace::{
        FileLock, LockError,
        files::{FileError, read_json, read_optional, remove_optional},
        is_lock_held,
    },
};

/// The files of one daemon in a data directory.
#[derive(Debug, Clone)]
pub struct DaemonFiles {
    dir: PathBuf,
    holder: &'static str,
}

/// The part that every record has.
#[derive(Deserialize)]
struct ProcessRecord {
    process: ProcessId,
}

impl DaemonFiles {
    /// The files of the local AWS.
    pub fn of_local_aws(data: &Path) -> Self {
        Self { dir: data.join("local-aws"), holder: "a running local AWS" }
    }

    /// The files of `capt up`.
    pub fn of_up(data: &Path) -> Self {
        Self { dir: data.join("up"), holder: "a running `capt up`" }
    }

    /// The files of the provider gateway.
    pub fn of_gateway(data: &Path) -> Self {
        Self { dir: data.join("gateway"), holder: "a running gateway" }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The record of the serving process.
    pub fn server_file(&self) -> PathBuf {
        self.dir.join("server.json")
    }

    /// The log file.
    pub fn log_file(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    fn lock_file(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Whether a process holds the lock: it serves, or is about to.
    pub fn is_locked(&self) -> Result<bool, FileError> {
        is_lock_held(&self.lock_file())
    }

    /// The last lines of the log, each preceded by a line break.
    pub fn log_tail(&self) -> Result<String, FileError> {
        let bytes = read_optional(&self.log_file())?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        Ok(lines.into_iter().rev().fold(String::new(), |tail, line| tail + "\n  " + line))
    }

    /// Removes the record of a killed server. Takes the lock, because a successor may have written it.
    pub fn remove_stale_record(&self) -> Result<(), FileError> {
        if !self.server_file().exists() {
            return Ok(());
        }
        let _alone = match FileLock::acquire(&self.lock_file(), "a capt that removes a stale record") {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => return Ok(()),
            Err(LockError::File(error)) => return Err(error),
        };
        match read_json::<ProcessRecord>(&self.server_file())? {
            Some(server) if !server.process.is_alive() => remove_optional(&self.server_file()),
            _ => Ok(()),
        }
    }

    /// Removes the record of an exiting server, if it is still its own: the directory may have been replaced, and the record
    /// may belong to a successor.
    pub fn remove_record(&self, process: ProcessId) -> Result<(), FileError> {
        match read_json::<ProcessRecord>(&self.server_file())? {
            Some(server) if server.process == process => remove_optional(&self.server_file()),
            _ => Ok(()),
        }
    }

    /// Acquires the lock. Retries briefly, because probing whether it is held takes it for an instant.
    pub async fn acquire_lock(&self) -> Result<FileLock, LockError> {
        let holder = format!("{} (process {})", self.holder, std::process::id());
        for _ in 0..LOCK_RETRIES {
            match FileLock::acquire(&self.lock_file(), &holder) {
                Err(LockError::Held { .. }) => tokio::time::sleep(LOCK_RETRY_DELAY).await,
                taken_or_broken => return taken_or_broken,
            }
        }
        FileLock::acquire(&self.lock_file(), &holder)
    }
}

const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);
const LOCK_RETRIES: u32 = 20;
