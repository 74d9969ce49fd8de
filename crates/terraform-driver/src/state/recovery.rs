//! Recovers the newest known version of the state before a plan.
//!
//! A plan on a truncated, missing or outdated state would create existing resources again. Planning is therefore refused while
//! an `errored.tfstate` cannot be attributed to the state.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{
    snapshots::{SnapshotOutcome, StateSnapshots},
    state_file::StateVersion,
};
use crate::workspace::files::{FileError, read_optional, remove_optional, write_atomic};

/// Result of a recovery.
#[derive(Debug, PartialEq, Eq)]
pub enum StateRecovery {
    /// There is no state.
    NoState,
    /// The file has the newest version; its serial.
    Intact(u64),
    /// The file was missing, truncated or outdated, and was restored from a snapshot.
    FromSnapshot {
        /// The restored serial.
        serial: u64,
        /// `missing`, `torn` or `behind`.
        problem: &'static str,
    },
    /// Restored from `errored.tfstate`, which terraform writes when it cannot save its state; the serial.
    FromErrored(u64),
}

/// Why the state cannot be recovered.
#[derive(Debug, Error)]
pub enum StateRecoveryError {
    /// The file is damaged and there is no snapshot.
    #[error(
        "{} is damaged and there is no snapshot to restore it from; put a good copy in its place",
        path.display()
    )]
    Unrecoverable {
        /// The state file.
        path: PathBuf,
    },
    /// `errored.tfstate` has another lineage.
    #[error(
        "{} holds a state of another lineage; inspect it, then remove it or move it over terraform.tfstate",
        path.display()
    )]
    ForeignLineage {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Makes `dir/terraform.tfstate` the newest of the file, the snapshots and `errored.tfstate`.
pub fn recover_state(dir: &Path, snapshots: &StateSnapshots) -> Result<StateRecovery, StateRecoveryError> {
    let recovered = recover_from_snapshot(dir, snapshots)?;
    match recover_from_errored(dir, snapshots)? {
        Some(serial) => Ok(StateRecovery::FromErrored(serial)),
        None => Ok(recovered),
    }
}

fn recover_from_snapshot(
    dir: &Path,
    snapshots: &StateSnapshots,
) -> Result<StateRecovery, StateRecoveryError> {
    let path = dir.join("terraform.tfstate");
    let bytes = read_optional(&path)?;
    let newest = snapshots.newest()?;
    let was = match (bytes.as_deref().map(StateVersion::parse), &newest) {
        (None, None) => return Ok(StateRecovery::NoState),
        // Terraform leaves an empty file when it is killed before the first write.
        (Some(Err(_)), None) if bytes.as_deref().is_some_and(<[u8]>::is_empty) => {
            remove_optional(&path)?;
            return Ok(StateRecovery::NoState);
        }
        (Some(Err(_)), None) => return Err(StateRecoveryError::Unrecoverable { path }),
        (None, Some(_)) => "missing",
        (Some(Err(_)), Some(_)) => "torn",
        (Some(Ok(file)), Some((newest, _)))
            if file.lineage == newest.lineage && file.serial < newest.serial =>
        {
            "behind"
        }
        (Some(Ok(file)), _) => {
            if let Some(bytes) = &bytes {
                snapshots.store_if_newer(bytes)?;
            }
            return Ok(StateRecovery::Intact(file.serial));
        }
    };
    let Some((version, copy)) = newest else { return Ok(StateRecovery::NoState) };
    let good =
        read_optional(&copy)?.ok_or_else(|| StateRecoveryError::Unrecoverable { path: path.clone() })?;
    write_atomic(&path, &good, true)?;
    Ok(StateRecovery::FromSnapshot { serial: version.serial, problem: was })
}

fn recover_from_errored(dir: &Path, snapshots: &StateSnapshots) -> Result<Option<u64>, StateRecoveryError> {
    let errored = dir.join("errored.tfstate");
    let Some(bytes) = read_optional(&errored)? else { return Ok(None) };
    let foreign = || StateRecoveryError::ForeignLineage { path: errored.clone() };
    let version = StateVersion::parse(&bytes).map_err(|_| foreign())?;
    match snapshots.store_if_newer(&bytes)? {
        SnapshotOutcome::Stored(_) => {
            write_atomic(&dir.join("terraform.tfstate"), &bytes, true)?;
            remove_optional(&errored)?;
            Ok(Some(version.serial))
        }
        SnapshotOutcome::AlreadyStored => {
            remove_optional(&errored)?;
            Ok(None)
        }
        SnapshotOutcome::Incomplete | SnapshotOutcome::ForeignLineage => Err(foreign()),
    }
}
