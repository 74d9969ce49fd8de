//! State snapshots.
//!
//! Terraform's local backend truncates the state file before it writes, so a kill can leave a partial file. A snapshot is
//! stored of each version that parses, has the same lineage and a higher serial. Unusable files are kept below `set-aside`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::state_file::{State, StateVersion, is_same_state};
use crate::{
    clock,
    workspace::files::{FileError, create_private_dir, read_optional, remove_optional, write_atomic},
};

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
    /// A snapshot has the same serial and other contents.
    Forked {
        /// Version of the snapshot.
        version: StateVersion,
        /// The snapshot.
        path: PathBuf,
    },
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
        if let Some(path) = self.contradiction(&version, bytes)? {
            return Ok(SnapshotOutcome::Forked { version, path });
        }
        self.store(&version, bytes)
    }

    /// Like [`Self::store_if_newer`], for a state that the supervised engine has just written. The last version of a serial is
    /// the valid one there: terraform writes a serial again when a change is taken back within one apply.
    pub fn store_written(&self, bytes: &[u8]) -> Result<SnapshotOutcome, FileError> {
        let Ok(version) = StateVersion::parse(bytes) else { return Ok(SnapshotOutcome::Incomplete) };
        if let Some(path) = self.contradiction(&version, bytes)? {
            write_atomic(&path, bytes, true)?;
            return Ok(SnapshotOutcome::Stored(version.serial));
        }
        self.store(&version, bytes)
    }

    /// The snapshot of the same lineage and serial with other contents, if there is one.
    fn contradiction(&self, version: &StateVersion, bytes: &[u8]) -> Result<Option<PathBuf>, FileError> {
        let path = self.dir.join(file_name(version.serial));
        let Some(copy) = read_optional(&path)? else { return Ok(None) };
        let same_version = StateVersion::parse(&copy).is_ok_and(|found| found == *version);
        Ok((same_version && !is_same_state(&copy, bytes)).then_some(path))
    }

    fn store(&self, version: &StateVersion, bytes: &[u8]) -> Result<SnapshotOutcome, FileError> {
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

    /// Whether there are snapshots, intact or not.
    pub(super) fn has_any(&self) -> Result<bool, FileError> {
        Ok(!self.paths()?.is_empty())
    }

    /// Moves an unusable state file out of the way and returns its new path.
    pub(crate) fn set_aside(&self, file: &Path) -> Result<PathBuf, FileError> {
        let target = self.new_aside_path(file)?;
        fs::rename(file, &target).map_err(|source| FileError::new("move", file, source))?;
        Ok(target)
    }

    /// Keeps bytes that are not a state, for inspection.
    pub(crate) fn keep_aside(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        write_atomic(&self.new_aside_path(Path::new(name))?, bytes, true)
    }

    /// A new path for a file that is set aside; the oldest ones are removed.
    fn new_aside_path(&self, file: &Path) -> Result<PathBuf, FileError> {
        let dir = self.dir.join("set-aside");
        create_private_dir(&dir)?;
        let fail = |source| FileError::new("list", &dir, source);
        let mut old = Vec::new();
        for entry in fs::read_dir(&dir).map_err(fail)? {
            old.push(entry.map_err(fail)?.path());
        }
        old.sort();
        for path in old.iter().rev().skip(MAX_SNAPSHOTS - 1) {
            remove_optional(path)?;
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(dir.join(format!("{}-{name}", clock::now().strftime("%Y%m%dT%H%M%S%6fZ"))))
    }

    /// Sets all snapshots aside that are not older than this version.
    pub(super) fn displace_newer(&self, version: &StateVersion) -> Result<(), FileError> {
        for path in self.paths()? {
            let found = read_optional(&path)?.and_then(|bytes| StateVersion::parse(&bytes).ok());
            let is_older = |it: &StateVersion| it.lineage == version.lineage && it.serial < version.serial;
            if !found.as_ref().is_some_and(is_older) {
                self.set_aside(&path)?;
            }
        }
        Ok(())
    }

    /// Stores a version that a person has chosen.
    pub(super) fn store_chosen(&self, version: &StateVersion, bytes: &[u8]) -> Result<(), FileError> {
        create_private_dir(&self.dir)?;
        write_atomic(&self.dir.join(file_name(version.serial)), bytes, true)?;
        self.prune()
    }

    /// Files that were set aside, oldest first.
    pub(super) fn aside_paths(&self) -> Result<Vec<PathBuf>, FileError> {
        list_states(&self.dir.join("set-aside"))
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
    pub(super) fn paths(&self) -> Result<Vec<PathBuf>, FileError> {
        list_states(&self.dir)
    }
}

/// Files with the extension `tfstate`, sorted by name.
fn list_states(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let fail = |source| FileError::new("list", dir, source);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "tfstate") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn file_name(serial: u64) -> String {
    format!("{serial:020}.tfstate")
}

fn is_empty_state_file(path: &Path) -> Result<bool, FileError> {
    let bytes = fs::read(path).map_err(|source| FileError::new("read", path, source))?;
    Ok(State::parse(&bytes).is_ok_and(|state| state.is_empty()))
}
