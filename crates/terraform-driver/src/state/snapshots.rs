//! Copies of every valid state, kept beside it.
//!
//! Terraform's local backend truncates the file and writes it again, so a kill can leave half a file.
//! A copy is taken of each version that parses, continues the same history and is further along.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::file::{State, Version};
use crate::workspace::files::{FileError, private_dir, write_atomic};

/// How many versions stay. One apply of a large workspace writes hundreds; only the newest matter for a
/// recovery, the others are there for a person who wants to look back a few steps.
const KEEP: usize = 10;

/// What became of an offered version.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    /// Kept, with its serial.
    Kept(u64),
    /// We have this one or a newer one.
    Known,
    /// Not a complete state.
    Torn,
    /// Another history than the one we keep.
    Foreign,
}

/// The directory of copies.
#[derive(Debug, Clone)]
pub struct Snapshots {
    dir: PathBuf,
}

impl Snapshots {
    /// Copies live in `dir`, which is made on the first write.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Takes a copy if the rules allow it.
    pub fn offer(&self, bytes: &[u8]) -> Result<Offer, FileError> {
        let Ok(version) = Version::of(bytes) else { return Ok(Offer::Torn) };
        if let Some((newest, path)) = self.newest()? {
            if newest.lineage != version.lineage {
                // A new history may only begin where the old one ended with nothing left.
                if !ends_empty(&path)? {
                    return Ok(Offer::Foreign);
                }
                self.forget()?;
            } else if newest.serial >= version.serial {
                return Ok(Offer::Known);
            }
        }
        private_dir(&self.dir)?;
        write_atomic(&self.dir.join(file_name(version.serial)), bytes, true)?;
        self.prune()?;
        Ok(Offer::Kept(version.serial))
    }

    /// The furthest version that is intact.
    pub fn newest(&self) -> Result<Option<(Version, PathBuf)>, FileError> {
        for path in self.paths()?.into_iter().rev() {
            let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
            if let Ok(version) = Version::of(&bytes) {
                return Ok(Some((version, path)));
            }
        }
        Ok(None)
    }

    /// The furthest state itself, if there is one.
    pub fn newest_state(&self) -> Result<Option<State>, FileError> {
        let Some((_, path)) = self.newest()? else { return Ok(None) };
        let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
        Ok(State::parse(&bytes).ok())
    }

    fn forget(&self) -> Result<(), FileError> {
        for path in self.paths()? {
            fs::remove_file(&path).map_err(|source| FileError::new("remove", &path, source))?;
        }
        Ok(())
    }

    fn prune(&self) -> Result<(), FileError> {
        let paths = self.paths()?;
        for path in paths.iter().rev().skip(KEEP) {
            fs::remove_file(path).map_err(|source| FileError::new("remove", path, source))?;
        }
        Ok(())
    }

    /// Oldest first: serials are padded, so names sort as numbers do.
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

fn ends_empty(path: &Path) -> Result<bool, FileError> {
    let bytes = fs::read(path).map_err(|source| FileError::new("read", path, source))?;
    Ok(State::parse(&bytes).is_ok_and(|state| state.is_empty()))
}
