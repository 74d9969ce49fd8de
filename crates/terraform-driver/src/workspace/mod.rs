//! The directory of one workspace: the only place that writes there.
//!
//! A person opens it and sees an ordinary terraform root: `main.tf`, `terraform.tfvars.json`,
//! `terraform.tfstate`. What belongs to capt is below `.capt/`:
//!
//! | path | is |
//! |---|---|
//! | `.capt/lock` | held by whoever works on the workspace |
//! | `.capt/files.json` | the files that we rendered, so that a stale one can go |
//! | `.capt/init.json` | the digest for which `init` was last done |
//! | `.capt/sealed/` | the configuration of the last apply, for the destroy |
//! | `.capt/state/` | copies of every valid state |
//! | `.capt/pulled.tfstate` | the state as it was last read from a backend that the user chose |
//! | `.capt/runs/<id>/` | one terraform command each: what was asked, what it said, how it ended |

pub mod files;
mod lock;

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use files::{FileError, private_dir, read_json, read_optional, remove_optional, write_atomic, write_json};
pub use lock::{FileLock, LockError, is_held};
use thiserror::Error;

use crate::state::{NotAState, Snapshots, State};

/// Why the directory could not be brought to what was rendered.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// A rendered path that leaves the directory.
    #[error("refusing to write {path:?}: it is outside of the workspace directory")]
    Escapes {
        /// The offending path.
        path: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The state does not parse.
    #[error("cannot read the state in {}", path.display())]
    State {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: NotAState,
    },
}

/// One file to be written.
#[derive(Debug, Clone, Copy)]
pub struct FileToWrite<'a> {
    /// Relative path with forward slashes.
    pub path: &'a str,
    /// The contents.
    pub bytes: &'a [u8],
    /// For our eyes only.
    pub secret: bool,
}

/// A workspace's directory.
#[derive(Debug, Clone)]
pub struct Workspace {
    dir: PathBuf,
    root: PathBuf,
    remote: bool,
}

impl Workspace {
    /// The workspace at `dir`; nothing is touched yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self { root: dir.clone(), dir, remote: false }
    }

    /// The same, with terraform running in a directory below (the entrypoint of a fetched module).
    #[must_use]
    pub fn running_in(mut self, below: &str) -> Self {
        self.root = self.dir.join(below);
        self
    }

    /// The same, with its state in a backend that the user chose: what we read is a copy, pulled from there.
    #[must_use]
    pub fn with_remote_state(mut self, remote: bool) -> Self {
        self.remote = remote;
        self
    }

    /// Whether the state is in a backend that the user chose.
    pub fn has_remote_state(&self) -> bool {
        self.remote
    }

    /// Everything of the workspace.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory that terraform runs in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Our own part of it.
    pub fn meta(&self) -> PathBuf {
        self.dir.join(".capt")
    }

    /// Where the runs are.
    pub fn runs(&self) -> PathBuf {
        self.meta().join("runs")
    }

    /// The state file, or our copy of it.
    pub fn state_path(&self) -> PathBuf {
        if self.remote { self.meta().join("pulled.tfstate") } else { self.root.join("terraform.tfstate") }
    }

    /// The copies of the state.
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::at(self.meta().join("state"))
    }

    /// Makes the directory and takes its lock.
    pub fn lock(&self, holder: &str) -> Result<FileLock, LockError> {
        private_dir(&self.meta())?;
        FileLock::take(&self.meta().join("lock"), holder)
    }

    /// The state, if there is one.
    pub fn state(&self) -> Result<Option<State>, WorkspaceError> {
        let path = self.state_path();
        let Some(bytes) = read_optional(&path)? else { return Ok(None) };
        State::parse(&bytes).map(Some).map_err(|source| WorkspaceError::State { path, source })
    }

    /// The state's bytes, if there is one.
    pub fn state_bytes(&self) -> Result<Option<Vec<u8>>, FileError> {
        read_optional(&self.state_path())
    }

    /// Brings the directory to exactly these files: writes what differs, removes what an earlier render
    /// wrote and this one did not. Files that a person put there stay.
    pub fn write<'a>(&self, wanted: impl IntoIterator<Item = FileToWrite<'a>>) -> Result<(), WorkspaceError> {
        private_dir(&self.meta())?;
        let index = self.meta().join("files.json");
        let before: BTreeSet<String> = read_json(&index)?.unwrap_or_default();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let after: BTreeSet<String> = wanted.iter().map(|file| file.path.to_owned()).collect();
        // The union goes first: killed half-way, the next render still knows everything we may have written.
        if after != before {
            write_json(&index, &before.union(&after).collect::<BTreeSet<_>>())?;
        }
        for file in &wanted {
            self.write_one(*file)?;
        }
        for stale in before.difference(&after) {
            remove_optional(&self.inside(stale)?)?;
        }
        if after != before {
            write_json(&index, &after)?;
        }
        Ok(())
    }

    fn write_one(&self, file: FileToWrite<'_>) -> Result<(), WorkspaceError> {
        let path = self.inside(file.path)?;
        if read_optional(&path)?.as_deref() == Some(file.bytes) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            private_dir(parent)?;
        }
        Ok(write_atomic(&path, file.bytes, file.secret)?)
    }

    fn inside(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        let relative = Path::new(path);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if plain && !path.is_empty() && !path.starts_with(".capt") {
            Ok(self.dir.join(relative))
        } else {
            Err(WorkspaceError::Escapes { path: path.to_owned() })
        }
    }

    /// Keeps a copy of everything that was rendered: what is applied now can be destroyed with it, whatever is
    /// rendered later.
    pub fn seal(&self) -> Result<(), WorkspaceError> {
        let rendered: BTreeSet<String> = read_json(&self.meta().join("files.json"))?.unwrap_or_default();
        let sealed = self.meta().join("sealed");
        for path in &rendered {
            if let Some(bytes) = read_optional(&self.inside(path)?)? {
                let copy = sealed.join(path);
                if let Some(parent) = copy.parent() {
                    private_dir(parent)?;
                }
                write_atomic(&copy, &bytes, true)?;
            }
        }
        Ok(write_json(&self.meta().join("sealed.json"), &rendered)?)
    }

    /// Brings back what was sealed, if anything was.
    pub fn unseal(&self) -> Result<(), WorkspaceError> {
        let Some(rendered) = read_json::<BTreeSet<String>>(&self.meta().join("sealed.json"))? else {
            return Ok(());
        };
        let mut files = Vec::new();
        for path in rendered {
            if let Some(bytes) = read_optional(&self.meta().join("sealed").join(&path))? {
                files.push((path, bytes));
            }
        }
        let secret = |path: &str| path.contains("tfvars");
        self.write(files.iter().map(|(path, bytes)| FileToWrite { path, bytes, secret: secret(path) }))
    }

    /// Reads a tree of files (a local module), hidden ones left out.
    pub fn read_tree(source: &Path) -> Result<Vec<(String, Vec<u8>)>, FileError> {
        let mut found = Vec::new();
        read_tree_into(source, source, &mut found)?;
        found.sort();
        Ok(found)
    }

    /// Removes the whole directory.
    pub fn remove(self) -> Result<(), FileError> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::new("remove", &self.dir, error))
            }
            _ => Ok(()),
        }
    }
}

fn read_tree_into(base: &Path, dir: &Path, found: &mut Vec<(String, Vec<u8>)>) -> Result<(), FileError> {
    let fail = |source| FileError::new("list", dir, source);
    for entry in fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let path = entry.path();
        let name = entry.file_name();
        let hidden = name.to_string_lossy().starts_with('.');
        let kind = entry.file_type().map_err(fail)?;
        if hidden {
            continue;
        }
        if kind.is_dir() {
            read_tree_into(base, &path, found)?;
        } else if kind.is_file()
            && let Ok(relative) = path.strip_prefix(base)
        {
            let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
            found.push((relative.to_string_lossy().into_owned(), bytes));
        }
    }
    Ok(())
}
