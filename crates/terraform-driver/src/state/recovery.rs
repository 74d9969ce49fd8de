//! Brings the state file back to the furthest version that is known, before anything is planned.
//!
//! Planning on a torn, missing or outdated state means proposing to create what exists already. So this
//! runs first, and planning is refused while a finished piece of work is only in a file we cannot place.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{
    file::Version,
    snapshots::{Offer, Snapshots},
};
use crate::workspace::files::{FileError, read_optional, remove_optional, write_atomic};

/// What was found, and what was done about it.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovered {
    /// No state yet.
    Fresh,
    /// The file was the newest version.
    Intact(u64),
    /// The file was missing, torn or behind, and a copy took its place.
    FromSnapshot {
        /// The version that is in force now.
        serial: u64,
        /// `missing`, `torn` or `behind`.
        was: &'static str,
    },
    /// Terraform could not write its state and had left it in `errored.tfstate`.
    FromErrored(u64),
}

/// Why nothing may be planned.
#[derive(Debug, Error)]
pub enum RecoverError {
    /// The file is damaged and there is no copy.
    #[error(
        "{} is damaged and there is no snapshot to restore it from; put a good copy in its place",
        path.display()
    )]
    Lost {
        /// The state file.
        path: PathBuf,
    },
    /// An `errored.tfstate` that belongs to another history.
    #[error(
        "{} holds a state of another lineage; look at it, then remove it or move it over terraform.tfstate",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Makes `dir/terraform.tfstate` the furthest of {file, snapshots, `errored.tfstate`}.
pub fn recover(dir: &Path, snapshots: &Snapshots) -> Result<Recovered, RecoverError> {
    let recovered = from_snapshot(dir, snapshots)?;
    match from_errored(dir, snapshots)? {
        Some(serial) => Ok(Recovered::FromErrored(serial)),
        None => Ok(recovered),
    }
}

fn from_snapshot(dir: &Path, snapshots: &Snapshots) -> Result<Recovered, RecoverError> {
    let path = dir.join("terraform.tfstate");
    let bytes = read_optional(&path)?;
    let newest = snapshots.newest()?;
    let was = match (bytes.as_deref().map(Version::of), &newest) {
        (None, None) => return Ok(Recovered::Fresh),
        // An empty file is what terraform leaves when it dies before the first write: there was nothing.
        (Some(Err(_)), None) if bytes.as_deref().is_some_and(<[u8]>::is_empty) => {
            remove_optional(&path)?;
            return Ok(Recovered::Fresh);
        }
        (Some(Err(_)), None) => return Err(RecoverError::Lost { path }),
        (None, Some(_)) => "missing",
        (Some(Err(_)), Some(_)) => "torn",
        (Some(Ok(file)), Some((newest, _)))
            if file.lineage == newest.lineage && file.serial < newest.serial =>
        {
            "behind"
        }
        (Some(Ok(file)), _) => {
            if let Some(bytes) = &bytes {
                snapshots.offer(bytes)?;
            }
            return Ok(Recovered::Intact(file.serial));
        }
    };
    let Some((version, copy)) = newest else { return Ok(Recovered::Fresh) };
    let good = read_optional(&copy)?.ok_or_else(|| RecoverError::Lost { path: path.clone() })?;
    write_atomic(&path, &good, true)?;
    Ok(Recovered::FromSnapshot { serial: version.serial, was })
}

fn from_errored(dir: &Path, snapshots: &Snapshots) -> Result<Option<u64>, RecoverError> {
    let errored = dir.join("errored.tfstate");
    let Some(bytes) = read_optional(&errored)? else { return Ok(None) };
    let foreign = || RecoverError::Foreign { path: errored.clone() };
    let version = Version::of(&bytes).map_err(|_| foreign())?;
    match snapshots.offer(&bytes)? {
        Offer::Kept(_) => {
            write_atomic(&dir.join("terraform.tfstate"), &bytes, true)?;
            remove_optional(&errored)?;
            Ok(Some(version.serial))
        }
        Offer::Known => {
            remove_optional(&errored)?;
            Ok(None)
        }
        Offer::Torn | Offer::Foreign => Err(foreign()),
    }
}
