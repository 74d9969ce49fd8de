//! The directory of one workspace. No other module writes there.
//!
//! It is an ordinary terraform root module: `main.tf`, `terraform.tfvars.json`, `terraform.tfstate`. Files of capt are below
//! `.capt/`:
//!
//! | path | contents |
//! |---|---|
//! | `.capt/lock` | lock, held during a run |
//! | `.capt/files.json` | list of the rendered files, to remove stale ones |
//! | `.capt/init.json` | inputs digest of the last `init` |
//! | `.capt/sealed/` | configuration of the last apply, for a destroy |
//! | `.capt/state/` | state snapshots |
//! | `.capt/pulled.tfstate` | last pulled copy of a state in a remote backend |
//! | `.capt/applied.json` | number of objects after the last apply |
//! | `.capt/older/` | contents of the directory that were older than the state store |
//! | `.capt/runs/<id>/` | one terraform command each: specification, output, exit |

mod backup;
mod directory_watch;
mod file_lock;
pub mod files;

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

pub use backup::WorkspaceBackup;
pub use directory_watch::DirectoryWatch;
pub use file_lock::{FileLock, LockError, is_lock_held};
use files::{
    FileError, create_private_dir, read_beneath, read_json, read_optional, remove_optional, write_atomic,
    write_json,
};
use thiserror::Error;

use crate::{
    clock,
    source::is_state_or_plan,
    state::{InvalidState, State, StateSnapshots},
};

/// Why a workspace directory cannot be read or written.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// A rendered path is outside the directory.
    #[error("refusing to write {path:?}: it is outside the workspace directory")]
    Escapes {
        /// The offending path.
        path: String,
    },
    /// A rendered path is the one of a state or a plan.
    #[error("refusing to write {path:?}: the name is reserved for states and plans")]
    Reserved {
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
        /// The parse error.
        #[source]
        source: InvalidState,
    },
}

/// A file to write.
#[derive(Debug, Clone, Copy)]
pub struct FileToWrite<'a> {
    /// Relative path with forward slashes.
    pub path: &'a str,
    /// The contents.
    pub bytes: &'a [u8],
    /// Whether the mode is 0600.
    pub secret: bool,
}

/// A workspace's directory.
#[derive(Debug, Clone)]
pub struct WorkspaceDir {
    dir: PathBuf,
    root: PathBuf,
    has_remote_state: bool,
}

impl WorkspaceDir {
    /// The workspace at `dir`; creates nothing.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self { root: dir.clone(), dir, has_remote_state: false }
    }

    /// Sets the root module to a directory below (the entrypoint of a fetched module).
    #[must_use]
    pub fn with_root(mut self, below: &str) -> Self {
        self.root = self.dir.join(below);
        self
    }

    /// Sets whether the state is in a remote backend; the local state is then a pulled copy.
    #[must_use]
    pub fn with_remote_state(mut self, remote: bool) -> Self {
        self.has_remote_state = remote;
        self
    }

    /// Whether the state is in a remote backend.
    pub fn has_remote_state(&self) -> bool {
        self.has_remote_state
    }

    /// The workspace directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Directory of the root module, where terraform runs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The `.capt` directory.
    pub fn meta_dir(&self) -> PathBuf {
        self.dir.join(".capt")
    }

    /// Directory of the runs.
    pub fn runs_dir(&self) -> PathBuf {
        self.meta_dir().join("runs")
    }

    /// The state file, or the pulled copy of a remote state.
    pub fn state_path(&self) -> PathBuf {
        if self.has_remote_state {
            self.meta_dir().join("pulled.tfstate")
        } else {
            self.root.join("terraform.tfstate")
        }
    }

    /// State snapshots.
    pub fn snapshots(&self) -> StateSnapshots {
        StateSnapshots::at(self.snapshots_dir())
    }

    /// Directory of the state snapshots.
    pub fn snapshots_dir(&self) -> PathBuf {
        self.meta_dir().join("state")
    }

    /// Creates the directory and acquires its lock.
    pub fn lock(&self, holder: &str) -> Result<FileLock, LockError> {
        create_private_dir(&self.meta_dir())?;
        FileLock::acquire(&self.meta_dir().join("lock"), holder)
    }

    /// The state, if there is one.
    pub fn state(&self) -> Result<Option<State>, WorkspaceError> {
        let path = self.state_path();
        let Some(bytes) = read_beneath(&self.dir, &path)? else { return Ok(None) };
        State::parse(&bytes).map(Some).map_err(|source| WorkspaceError::State { path, source })
    }

    /// The state's bytes, if there is one.
    pub fn state_bytes(&self) -> Result<Option<Vec<u8>>, FileError> {
        read_beneath(&self.dir, &self.state_path())
    }

    /// Synchronises the rendered files: writes those that differ and removes those of an earlier render. Other files are left
    /// alone.
    pub fn sync_files<'a>(
        &self,
        wanted: impl IntoIterator<Item = FileToWrite<'a>>,
    ) -> Result<(), WorkspaceError> {
        create_private_dir(&self.meta_dir())?;
        let index = self.meta_dir().join("files.json");
        let before: BTreeSet<String> = read_json(&index)?.unwrap_or_default();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let after: BTreeSet<String> = wanted.iter().map(|file| file.path.to_owned()).collect();
        // Write the union first, so that after a kill the next render still knows every file of this one.
        if after != before {
            write_json(&index, &before.union(&after).collect::<BTreeSet<_>>())?;
        }
        for file in &wanted {
            if is_state_or_plan(file.path) {
                return Err(WorkspaceError::Reserved { path: file.path.to_owned() });
            }
            self.write_file(*file)?;
        }
        // An earlier version may have rendered the state of a module: it is the live one by now.
        for stale in before.difference(&after).filter(|path| !is_state_or_plan(path)) {
            remove_optional(&self.checked_path(stale)?)?;
        }
        if after != before {
            write_json(&index, &after)?;
        }
        Ok(())
    }

    fn write_file(&self, file: FileToWrite<'_>) -> Result<(), WorkspaceError> {
        let path = self.checked_path(file.path)?;
        if read_optional(&path)?.as_deref() == Some(file.bytes) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            create_private_dir(parent)?;
        }
        Ok(write_atomic(&path, file.bytes, file.secret)?)
    }

    fn checked_path(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        let relative = Path::new(path);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if plain && !path.is_empty() && !path.starts_with(".capt") {
            Ok(self.dir.join(relative))
        } else {
            Err(WorkspaceError::Escapes { path: path.to_owned() })
        }
    }

    /// Copies the rendered files, so that this apply can be destroyed with its own configuration after later renders.
    pub fn seal(&self) -> Result<(), WorkspaceError> {
        let rendered: BTreeSet<String> = read_json(&self.meta_dir().join("files.json"))?.unwrap_or_default();
        let sealed = self.meta_dir().join("sealed");
        for path in &rendered {
            if let Some(bytes) = read_optional(&self.checked_path(path)?)? {
                let copy = sealed.join(path);
                if let Some(parent) = copy.parent() {
                    create_private_dir(parent)?;
                }
                write_atomic(&copy, &bytes, true)?;
            }
        }
        Ok(write_json(&self.meta_dir().join("sealed.json"), &rendered)?)
    }

    /// Whether the sealed configuration is the rendered one.
    pub fn is_sealed(&self) -> Result<bool, WorkspaceError> {
        let read = |name| read_json::<BTreeSet<String>>(&self.meta_dir().join(name));
        let (rendered, sealed) = (read("files.json")?, read("sealed.json")?);
        if rendered != sealed {
            return Ok(false);
        }
        for path in rendered.unwrap_or_default() {
            let copy = read_optional(&self.meta_dir().join("sealed").join(&path))?;
            if read_optional(&self.checked_path(&path)?)? != copy {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Restores the sealed configuration, if there is one.
    pub fn unseal(&self) -> Result<(), WorkspaceError> {
        let Some(rendered) = read_json::<BTreeSet<String>>(&self.meta_dir().join("sealed.json"))? else {
            return Ok(());
        };
        let mut files = Vec::new();
        for path in rendered.into_iter().filter(|path| !is_state_or_plan(path)) {
            if let Some(bytes) = read_optional(&self.meta_dir().join("sealed").join(&path))? {
                files.push((path, bytes));
            }
        }
        let secret = |path: &str| path.contains("tfvars");
        self.sync_files(files.iter().map(|(path, bytes)| FileToWrite { path, bytes, secret: secret(path) }))
    }

    /// Moves everything but the lock to `.capt/older`, so that the directory can be filled again, and returns the new place. `last`
    /// is moved last: if it is still there, the move was interrupted.
    pub fn set_aside(&self, last: &Path) -> Result<PathBuf, FileError> {
        let (meta, time) = (self.meta_dir(), clock::now().strftime("%Y%m%dT%H%M%S%6fZ"));
        let older = meta.join("older").join(time.to_string());
        create_private_dir(&older.join(".capt"))?;
        let stays = [meta.clone(), meta.join("lock"), meta.join("older"), last.to_owned()];
        for (from, to) in [(&self.dir, older.clone()), (&meta, older.join(".capt"))] {
            let fail = |source| FileError::new("list", from, source);
            for entry in fs::read_dir(from).map_err(fail)? {
                let path = entry.map_err(fail)?.path();
                if !stays.contains(&path) {
                    move_into(&path, &to)?;
                }
            }
        }
        if last.exists() {
            move_into(last, &older.join(".capt"))?;
        }
        Ok(older)
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

fn move_into(path: &Path, dir: &Path) -> Result<(), FileError> {
    let target = dir.join(path.file_name().unwrap_or_default());
    fs::rename(path, target).map_err(|source| FileError::new("move", path, source))
}
