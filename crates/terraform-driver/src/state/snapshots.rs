//! State snapshots.
//!
//! Terraform's local backend truncates the state file before it writes, so a kill can leave a partial file. A snapshot is
//! stored of each version that parses, has the same lineage and a higher serial.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::state_file::{State, StateVersion};
use crate::workspace::files::{FileError, create_private_dir, write_atomic};

/// Number of snapshots that are kept. An apply of a large workspace writes hundreds; recovery needs only the newest, the others
/// are for manual inspection.
const MAX_SNAPSHOTS: usize = 10;

/// Result of storing a version.
#[derive(Debug, PartialEq, Eq)]
pub enum SnapshotOutcome {
    /// Stored; the serial.
    Stored(u64),
    /// The same or a newer version is stored already.
    AlreadyStored,
    /// The state is truncated.
    Incomplete,
    /// The state has another lineage.
    ForeignLineage,
}

/// Directory of snapshots.
#[derive(Debug, Clone)]
pub struct StateSnapshots {
    dir: PathBuf,
}

impl StateSnapshots {
    /// Snapshots in `dir`, which is created on the first write.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Stores a version if it is complete, of the same lineage and newer.
    pub fn store_if_newer(&self, bytes: &[u8]) -> Result<SnapshotOutcome, FileError> {
        let Ok(version) = StateVersion::parse(bytes) else { return Ok(SnapshotOutcome::Incomplete) };
        if let Some((newest, path)) = self.newest()? {
            if newest.lineage != version.lineage {
                // A new lineage is accepted only after a state without resources.
                if !is_empty_state_file(&path)? {
                    return Ok(SnapshotOutcome::ForeignLineage);
                }
                self.clear()?;
            } else if newest.serial >= version.serial {
                return Ok(SnapshotOutcome::AlreadyStored);
            }
        }
        create_private_dir(&self.dir)?;
        write_atomic(&self.dir.join(file_name(version.serial)), bytes, true)?;
        self.prune()?;
        Ok(SnapshotOutcome::Stored(version.serial))
    }

    /// The newest intact snapshot.
    pub fn newest(&self) -> Result<Option<(StateVersion, PathBuf)>, FileError> {
        for path in self.paths()?.into_iter().rev() {
            let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
            if let Ok(version) = StateVersion::parse(&bytes) {
                return Ok(Some((version, path)));
            }
        }
        Ok(None)
    }

    /// The state of the newest snapshot.
    pub fn newest_state(&self) -> Result<Option<State>, FileError> {
        let Some((_, path)) = self.newest()? else { return Ok(None) };
        let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
        Ok(State::parse(&bytes).ok())
    }

    fn clear(&self) -> Result<(), FileError> {
        for path in self.paths()? {
            fs::remove_file(&path).map_err(|source| FileError::new("remove", &path, source))?;
        }
        Ok(())
    }

    fn prune(&self) -> Result<(), FileError> {
        let paths = self.paths()?;
        for path in paths.iter().rev().skip(MAX_SNAPSHOTS) {
            fs::remove_file(path).map_err(|source| FileError::new("remove", path, source))?;
        }
        Ok(())
    }

    /// Snapshot files, oldest first: serials are zero-padded, so names sort numerically.
    fn paths(&self) -> Result<Vec<PathBuf>, FileError> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let fail = |source| FileError::new("list", &self.dir, source);
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.extension().is_some_and(|extension| extension == "tfstate") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

fn file_name(serial: u64) -> String {
    format!("{serial:020}.tfstate")
}

fn is_empty_state_file(path: &Path) -> Result<bool, FileError> {
    let bytes = fs::read(path).map_err(|source| FileError::new("read", path, source))?;
    Ok(State::parse(&bytes).is_ok_and(|state| state.is_empty()))
}
