//! Recovers the newest known version of the state before a plan.
//!
//! A plan on a truncated, missing or outdated state would create existing resources again. Planning is therefore refused while
//! two versions contradict each other, and while a state is lost of which something is known to have existed.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{
    evidence::find_evidence,
    snapshots::{SnapshotOutcome, StateSnapshots},
    state_file::StateVersion,
};
use crate::workspace::{
    WorkspaceDir,
    files::{FileError, read_optional, remove_optional, write_atomic},
};

/// Where the state came from.
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

/// Result of a recovery.
#[derive(Debug, PartialEq, Eq)]
pub struct RecoveredState {
    /// Where the state came from.
    pub source: StateRecovery,
    /// Unusable files that were moved out of the way, for inspection.
    pub set_aside: Vec<PathBuf>,
}

impl RecoveredState {
    /// What a person should know; empty if nothing was wrong.
    pub fn notes(&self) -> Vec<String> {
        let source = match &self.source {
            StateRecovery::NoState | StateRecovery::Intact(_) => None,
            StateRecovery::FromSnapshot { serial, problem } => {
                Some(format!("the state was {problem}; restored from snapshot {serial}"))
            }
            StateRecovery::FromErrored(serial) => {
                Some(format!("recovered the state that terraform could not save (serial {serial})"))
            }
        };
        let aside = self.set_aside.iter().map(|path| {
            format!("a state file was incomplete, as a full disk leaves it; it is kept as {}", path.display())
        });
        source.into_iter().chain(aside).collect()
    }
}

/// Why the state cannot be recovered.
#[derive(Debug, Error)]
pub enum StateRecoveryError {
    /// The state is lost, and something that it contained is known to have existed.
    #[error(
        "{} is {problem} and no snapshot of it is intact, but {evidence}; planning without the state would create everything \
         again. Put a good copy in its place with `capt state push` (`capt state versions` lists what is kept), or remove {} if \
         nothing of it exists any more",
        path.display(), workspace.display()
    )]
    Unrecoverable {
        /// The state file.
        path: PathBuf,
        /// `missing`, `empty` or `torn`.
        problem: &'static str,
        /// What shows that there were objects.
        evidence: String,
        /// The workspace directory.
        workspace: PathBuf,
    },
    /// Two versions of the state contradict each other.
    #[error(
        "{} ({}) and {} ({}) are two histories of one workspace: neither follows from the other, and nothing is planned \
         until one is chosen. Compare both with the cloud, and choose the right one with `capt state restore` (`capt state \
         versions` lists both)",
        file.display(), version_text(file_version), other.display(), version_text(other_version)
    )]
    Forked {
        /// The state file, or `errored.tfstate`.
        file: PathBuf,
        /// Its version.
        file_version: StateVersion,
        /// The snapshot.
        other: PathBuf,
        /// Its version.
        other_version: StateVersion,
    },
    /// `errored.tfstate` has another lineage.
    #[error(
        "{} holds a state of another lineage; inspect it, then remove it, or choose it with `capt state push --force`",
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

fn version_text(version: &StateVersion) -> String {
    format!("serial {}, lineage {}", version.serial, version.lineage)
}

/// Makes `terraform.tfstate` the newest of the file, the snapshots and `errored.tfstate`.
pub fn recover_state(workspace: &WorkspaceDir) -> Result<RecoveredState, StateRecoveryError> {
    let (path, snapshots) = (workspace.root().join("terraform.tfstate"), workspace.snapshots());
    let mut set_aside = Vec::new();
    let file = read_optional(&path)?;
    let version = file.as_deref().and_then(|bytes| StateVersion::parse(bytes).ok());
    if let (Some(bytes), Some(version)) = (&file, &version) {
        check_history(&path, bytes, version, &snapshots)?;
    }
    if let Some(serial) = recover_from_errored(&path, &snapshots, &mut set_aside)? {
        return Ok(RecoveredState { source: StateRecovery::FromErrored(serial), set_aside });
    }
    let problem = match (&file, version) {
        (_, Some(version)) => match snapshots.newest()? {
            Some((newest, _)) if version.serial < newest.serial => "behind",
            _ => return Ok(RecoveredState { source: StateRecovery::Intact(version.serial), set_aside }),
        },
        (None, None) => "missing",
        (Some(_), None) => "torn",
    };
    let source = match snapshots.newest()? {
        Some((version, copy)) => {
            let good = std::fs::read(&copy).map_err(|source| FileError::new("read", &copy, source))?;
            write_atomic(&path, &good, true)?;
            StateRecovery::FromSnapshot { serial: version.serial, problem }
        }
        None => start_fresh(workspace, &path, file.as_deref(), &mut set_aside)?,
    };
    Ok(RecoveredState { source, set_aside })
}

/// Stores the file as a snapshot, unless a snapshot contradicts it.
fn check_history(
    path: &Path,
    bytes: &[u8],
    version: &StateVersion,
    snapshots: &StateSnapshots,
) -> Result<(), StateRecoveryError> {
    match snapshots.store_if_newer(bytes)? {
        SnapshotOutcome::Stored(_) | SnapshotOutcome::AlreadyStored | SnapshotOutcome::Incomplete => Ok(()),
        SnapshotOutcome::Forked { version: other_version, path: other } => Err(StateRecoveryError::Forked {
            file: path.to_owned(),
            file_version: version.clone(),
            other,
            other_version,
        }),
        SnapshotOutcome::ForeignLineage => match snapshots.newest()? {
            Some((other_version, other)) => Err(StateRecoveryError::Forked {
                file: path.to_owned(),
                file_version: version.clone(),
                other,
                other_version,
            }),
            None => Ok(()),
        },
    }
}

/// A workspace without a state starts fresh only if nothing shows that it had one. Terraform leaves an empty or incomplete file
/// when it is killed during its first write.
fn start_fresh(
    workspace: &WorkspaceDir,
    path: &Path,
    file: Option<&[u8]>,
    set_aside: &mut Vec<PathBuf>,
) -> Result<StateRecovery, StateRecoveryError> {
    if let Some(evidence) = find_evidence(workspace, file)? {
        let problem = file.map_or("missing", |bytes| if bytes.is_empty() { "empty" } else { "torn" });
        let (path, workspace) = (path.to_owned(), workspace.dir().to_owned());
        return Err(StateRecoveryError::Unrecoverable { path, problem, evidence, workspace });
    }
    match file {
        None => {}
        Some([]) => remove_optional(path)?,
        Some(_) => set_aside.push(workspace.snapshots().set_aside(path)?),
    }
    Ok(StateRecovery::NoState)
}

/// Takes over `errored.tfstate` if it is newer. A full disk leaves it empty or incomplete: then it contains no version that a
/// plan could use, and must not block the workspace.
fn recover_from_errored(
    path: &Path,
    snapshots: &StateSnapshots,
    set_aside: &mut Vec<PathBuf>,
) -> Result<Option<u64>, StateRecoveryError> {
    let errored = path.with_file_name("errored.tfstate");
    let Some(bytes) = read_optional(&errored)? else { return Ok(None) };
    let Ok(version) = StateVersion::parse(&bytes) else {
        set_aside.push(snapshots.set_aside(&errored)?);
        return Ok(None);
    };
    match snapshots.store_if_newer(&bytes)? {
        SnapshotOutcome::Stored(_) => {
            write_atomic(path, &bytes, true)?;
            remove_optional(&errored)?;
            Ok(Some(version.serial))
        }
        SnapshotOutcome::AlreadyStored => {
            remove_optional(&errored)?;
            Ok(None)
        }
        SnapshotOutcome::Forked { version: other_version, path: other } => {
            Err(StateRecoveryError::Forked { file: errored, file_version: version, other, other_version })
        }
        SnapshotOutcome::Incomplete | SnapshotOutcome::ForeignLineage => {
            Err(StateRecoveryError::ForeignLineage { path: errored })
        }
    }
}
