//! The deadline of a leader election Lease, on the disk of its holder.
//!
//! An operator that is frozen or cut off from the API server cannot stop what it started: terraform runs under its shim, and
//! providers under the gateway. The holder therefore records, after each renewal, until when changes may begin; gateway and
//! shim read that before a change and while one runs. Whatever the holder does or fails to do, no change begins later.
//!
//! The deadline lies before the end of the Lease, so that a change that has begun has reached AWS when another operator may
//! become the leader.

pub mod clock;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Name of the file in a data directory.
const FILE_NAME: &str = "lease.json";

/// What the holder of the Lease records after each renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRecord {
    /// Holder identity in the Lease.
    pub holder: String,
    /// Fencing token of the leadership.
    pub fence: u64,
    /// The boot in which the deadline counts.
    pub boot_id: String,
    /// Until when changes may begin, in milliseconds since boot.
    pub deadline_ms: u64,
}

impl LeaseRecord {
    /// Whether a run that was started with this fence may begin a change at this time.
    pub fn permits(&self, fence: u64, boot_id: &str, now: Duration) -> Result<(), NotLeading> {
        if self.boot_id != boot_id {
            return Err(NotLeading::Rebooted);
        }
        if self.fence != fence {
            return Err(NotLeading::OtherLeader { started: fence, current: self.fence });
        }
        if now >= Duration::from_millis(self.deadline_ms) {
            return Err(NotLeading::NotRenewed);
        }
        Ok(())
    }
}

/// Why no change may begin.
#[derive(Debug, Error)]
pub enum NotLeading {
    /// The deadline has passed.
    #[error("the operator has not renewed its leader election Lease in time")]
    NotRenewed,
    /// Another leadership began on this disk.
    #[error("another operator has led since the run began (fence {started}, now {current})")]
    OtherLeader {
        /// Fence of the run.
        started: u64,
        /// Fence of the recorded leadership.
        current: u64,
    },
    /// The machine was restarted since the last renewal.
    #[error("the machine was restarted since the operator renewed its leader election Lease")]
    Rebooted,
    /// The operator gave the Lease up, or has never recorded it.
    #[error("the operator does not hold the leader election Lease")]
    NoRecord,
    /// The record cannot be read.
    #[error("cannot read {}, which says until when the leader election Lease is held", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// The record of a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseFile {
    path: PathBuf,
}

impl LeaseFile {
    /// The record in a data directory, whose path must be absolute: processes with other working directories read it.
    pub fn in_data_directory(data: &Path) -> Self {
        Self { path: data.join(FILE_NAME) }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the record; `None` if there is none.
    pub fn read(&self) -> io::Result<Option<LeaseRecord>> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the record atomically. It is not flushed to the disk: it has no meaning after a crash of the machine.
    pub fn write(&self, record: &LeaseRecord) -> io::Result<()> {
        let parent = self.path.parent().unwrap_or_else(|| Path::new("."));
        let mut temporary = tempfile::Builder::new().prefix(".lease-").tempfile_in(parent)?;
        temporary.write_all(&serde_json::to_vec(record)?)?;
        temporary.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes the record: from now on no change may begin.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The leadership under which a run was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLease {
    /// The record of its data directory.
    pub file: LeaseFile,
    /// Fencing token of the leadership.
    pub fence: u64,
}

impl RunLease {
    /// Whether the run may begin a change now.
    pub fn check(&self) -> Result<(), NotLeading> {
        let unreadable = |source| NotLeading::Unreadable { path: self.file.path.clone(), source };
        let record = self.file.read().map_err(unreadable)?.ok_or(NotLeading::NoRecord)?;
        record.permits(self.fence, &clock::boot_id().map_err(unreadable)?, clock::since_boot())
    }
}
