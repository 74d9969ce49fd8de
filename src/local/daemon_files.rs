//! The files of a background process: who it is, what it says, and the lock that it holds as long as it lives.

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
        is_held,
    },
};

/// The directory of one background process below a data directory.
#[derive(Debug, Clone)]
pub struct Place {
    dir: PathBuf,
    who: &'static str,
}

/// All that every record has.
#[derive(Deserialize)]
struct Recorded {
    process: ProcessId,
}

impl Place {
    /// That of the local AWS.
    pub fn of(data: &Path) -> Self {
        Self { dir: data.join("local-aws"), who: "a running local AWS" }
    }

    /// That of `capt up`.
    pub fn of_up(data: &Path) -> Self {
        Self { dir: data.join("up"), who: "a running `capt up`" }
    }

    /// That of the gateway.
    pub fn of_gateway(data: &Path) -> Self {
        Self { dir: data.join("gateway"), who: "a running gateway" }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Who serves.
    pub fn server(&self) -> PathBuf {
        self.dir.join("server.json")
    }

    /// What it says.
    pub fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Whether somebody serves here, or is about to.
    pub fn is_taken(&self) -> Result<bool, FileError> {
        is_held(&self.lock())
    }

    /// The last lines of the log, each on a line of its own.
    pub fn tail(&self) -> Result<String, FileError> {
        let bytes = read_optional(&self.log())?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        Ok(lines.into_iter().rev().fold(String::new(), |tail, line| tail + "\n  " + line))
    }

    /// Removes what a server left behind that was killed. Under the lock, or it could be the record of the next.
    pub fn forget_dead_server(&self) -> Result<(), FileError> {
        if !self.server().exists() {
            return Ok(());
        }
        let _alone = match FileLock::take(&self.lock(), "a capt that tidies up") {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => return Ok(()),
            Err(LockError::File(error)) => return Err(error),
        };
        match read_json::<Recorded>(&self.server())? {
            Some(server) if !server.process.is_alive() => remove_optional(&self.server()),
            _ => Ok(()),
        }
    }

    /// Removes the record of a server that ends, if it still is its own: somebody may have taken the directory away
    /// under a server, and the next one there is not to be forgotten with it.
    pub fn forget(&self, process: ProcessId) -> Result<(), FileError> {
        match read_json::<Recorded>(&self.server())? {
            Some(server) if server.process == process => remove_optional(&self.server()),
            _ => Ok(()),
        }
    }

    /// Takes the place. Others hold the lock for an instant when they look whether it is taken, and an instant
    /// must not keep a server from its place.
    pub async fn take(&self) -> Result<FileLock, LockError> {
        let holder = format!("{} (process {})", self.who, std::process::id());
        for _ in 0..INSTANTS {
            match FileLock::take(&self.lock(), &holder) {
                Err(LockError::Held { .. }) => tokio::time::sleep(INSTANT).await,
                taken_or_broken => return taken_or_broken,
            }
        }
        FileLock::take(&self.lock(), &holder)
    }
}

const INSTANT: Duration = Duration::from_millis(50);
const INSTANTS: u32 = 20;
