//! Reads the files of a module, without those that it must not bring, and within limits.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use capt_util::byte_size::ByteSize;
use thiserror::Error;

use super::{ModuleSource, ModuleSourceKind, reserved::ReservedFile};
use crate::workspace::files::FileError;

/// How large a module may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// Bytes of all files.
    pub size: ByteSize,
    /// Number of files and directories.
    pub files: usize,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self { size: ByteSize::mebibytes(16), files: 5000 }
    }
}

/// Files of a module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SourceTree {
    /// Contents by path with forward slashes, sorted.
    pub files: Vec<(String, Vec<u8>)>,
    /// Files of a local module that are left out, because Terraform wrote them there.
    pub ignored: Vec<String>,
}

/// Why a module is not used.
#[derive(Debug, Error)]
pub enum SourceTreeError {
    /// It has a file with a reserved name.
    #[error("module {address} contains {file:?}: {reason}")]
    Reserved {
        /// The address, without credentials.
        address: String,
        /// The file.
        file: String,
        /// What the name is for, and the remedy.
        reason: &'static str,
    },
    /// It has too many bytes.
    #[error(
        "module {address} is larger than {limit}; use a smaller directory, or have the limit raised (--max-source-size)"
    )]
    TooLarge {
        /// The address, without credentials.
        address: String,
        /// The limit.
        limit: ByteSize,
    },
    /// It has too many files.
    #[error(
        "module {address} has more than {limit} files; use a smaller directory, or have the limit raised \
         (--max-source-files)"
    )]
    TooManyFiles {
        /// The address, without credentials.
        address: String,
        /// The limit.
        limit: usize,
    },
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads the module in `dir`. Hidden files and links are left out. `entrypoint` is the directory in which Terraform runs.
pub fn read_source(
    source: &ModuleSource,
    dir: &Path,
    entrypoint: &str,
    limits: SourceLimits,
) -> Result<SourceTree, SourceTreeError> {
    let mut reader =
        SourceReader { source, entrypoint, limits, entries: 0, bytes: 0, tree: SourceTree::default() };
    reader.read_dir(dir, "")?;
    reader.tree.files.sort();
    reader.tree.ignored.sort();
    Ok(reader.tree)
}

struct SourceReader<'a> {
    source: &'a ModuleSource,
    entrypoint: &'a str,
    limits: SourceLimits,
    entries: usize,
    bytes: u64,
    tree: SourceTree,
}

impl SourceReader<'_> {
    fn read_dir(&mut self, dir: &Path, below: &str) -> Result<(), SourceTreeError> {
        let fail = |source| FileError::new("list", dir, source);
        for entry in fs::read_dir(dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            self.entries += 1;
            if self.entries > self.limits.files {
                return Err(SourceTreeError::TooManyFiles {
                    address: self.source.to_string(),
                    limit: self.limits.files,
                });
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(fail)?;
            if kind.is_dir() {
                self.read_dir(&entry.path(), &path)?;
            } else if kind.is_file() && self.is_wanted(&path, below)? {
                let bytes = self.read_file(&entry.path())?;
                self.tree.files.push((path, bytes));
            }
        }
        Ok(())
    }

    /// Whether a file belongs to the module; an error if its name is reserved.
    fn is_wanted(&mut self, path: &str, below: &str) -> Result<bool, SourceTreeError> {
        // The files of a local module belong to the user of the command line, who may have run terraform there.
        let is_local = matches!(self.source.kind(), ModuleSourceKind::Local(_));
        match ReservedFile::of(path, below == self.entrypoint) {
            None => Ok(true),
            Some(ReservedFile::State | ReservedFile::Plan) if is_local => {
                self.tree.ignored.push(path.to_owned());
                Ok(false)
            }
            Some(ReservedFile::Variables) if is_local => Ok(true),
            Some(reserved) => Err(SourceTreeError::Reserved {
                address: self.source.to_string(),
                file: path.to_owned(),
                reason: reserved.reason(),
            }),
        }
    }

    /// Never reads more than the limit, whatever the file claims to have.
    fn read_file(&mut self, path: &Path) -> Result<Vec<u8>, SourceTreeError> {
        let fail = |source| FileError::new("read", path, source);
        let limit = self.limits.size;
        let (file, left) = (File::open(path).map_err(fail)?, limit.0.saturating_sub(self.bytes));
        let too_large = || SourceTreeError::TooLarge { address: self.source.to_string(), limit };
        if file.metadata().map_err(fail)?.len() > left {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        file.take(left.saturating_add(1)).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > left {
            return Err(too_large());
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

/// Whether the files below a directory, hidden ones included, have more than `limit` bytes. What disappears meanwhile does not
/// count.
pub fn is_larger_than(dir: &Path, limit: u64) -> bool {
    let (mut dirs, mut total) = (vec![dir.to_owned()], 0_u64);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(kind) if kind.is_file() => total += entry.metadata().map_or(0, |data| data.len()),
                _ => {}
            }
            if total > limit {
                return true;
            }
        }
    }
    false
}
