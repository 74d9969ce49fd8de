//! The versions of a state that a workspace directory keeps, and the replacement of the current one by hand.

use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::state_file::{InvalidState, State, StateVersion};
use crate::{
    hex::hex,
    workspace::{
        WorkspaceDir,
        files::{FileError, read_optional, write_atomic},
    },
};

/// Where a version is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPlace {
    /// `terraform.tfstate`.
    StateFile,
    /// `errored.tfstate`, which terraform writes when it cannot save its state.
    Errored,
    /// A snapshot of a run.
    Snapshot,
    /// Below `set-aside`: it was unusable, or it was replaced by hand.
    SetAside,
}

/// A version of a state in a workspace directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptState {
    /// Where it is kept.
    pub place: KeptPlace,
    /// The file.
    pub path: PathBuf,
    /// Lineage and serial.
    pub version: StateVersion,
    /// Number of managed objects.
    pub resources: usize,
    /// Digest of the file.
    pub sha256: String,
    /// When the file was written.
    pub written: Option<Timestamp>,
}

/// All complete versions that a directory keeps: the current one first, then the newest. The same contents are listed once.
pub fn list_kept_states(workspace: &WorkspaceDir) -> Result<Vec<KeptState>, FileError> {
    let snapshots = workspace.snapshots();
    let file = (KeptPlace::StateFile, workspace.state_path());
    let errored = (KeptPlace::Errored, errored_path(workspace));
    let copies = snapshots.paths()?.into_iter().rev().map(|path| (KeptPlace::Snapshot, path));
    let aside = snapshots.aside_paths()?.into_iter().rev().map(|path| (KeptPlace::SetAside, path));
    let mut found: Vec<KeptState> = Vec::new();
    for (place, path) in [file, errored].into_iter().chain(copies).chain(aside) {
        let Some(kept) = read_kept(place, path)? else { continue };
        if !found.iter().any(|other| other.sha256 == kept.sha256) {
            found.push(kept);
        }
    }
    Ok(found)
}

fn errored_path(workspace: &WorkspaceDir) -> PathBuf {
    workspace.root().join("errored.tfstate")
}

/// A version of a file; `None` if the file is missing or not a complete state.
fn read_kept(place: KeptPlace, path: PathBuf) -> Result<Option<KeptState>, FileError> {
    let Some(bytes) = read_optional(&path)? else { return Ok(None) };
    let Ok(state) = State::parse(&bytes) else { return Ok(None) };
    let written = modified(&path)?;
    let (resources, sha256) = (state.managed_objects().count(), hex(Sha256::digest(&bytes)));
    Ok(Some(KeptState { place, path, version: state.version, resources, sha256, written }))
}

fn modified(path: &Path) -> Result<Option<Timestamp>, FileError> {
    let fail = |source| FileError::new("read", path, source);
    let time = fs::metadata(path).and_then(|meta| meta.modified()).map_err(fail)?;
    let since = time.duration_since(UNIX_EPOCH).ok();
    Ok(since.and_then(|it| Timestamp::from_second(i64::try_from(it.as_secs()).ok()?).ok()))
}

/// Replaces the state of a workspace by one that a person has chosen. The caller holds the lock of the workspace. The replaced
/// file is kept below `set-aside`; no recovery prefers an older version to the new one.
pub fn replace_state_file(workspace: &WorkspaceDir, bytes: &[u8]) -> Result<(), ReplaceStateError> {
    let version = StateVersion::parse(bytes)?;
    let (path, errored, snapshots) = (workspace.state_path(), errored_path(workspace), workspace.snapshots());
    let before = read_optional(&path)?;
    snapshots.displace_newer(&version)?;
    if errored.exists() {
        snapshots.set_aside(&errored)?;
    }
    if let Some(before) = before {
        snapshots.keep_aside("terraform.tfstate", &before)?;
    }
    // The snapshot comes first: if this is interrupted, the next run restores the file from it.
    snapshots.store_chosen(&version, bytes)?;
    Ok(write_atomic(&path, bytes, true)?)
}

/// Why a state file was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceStateError {
    /// The new contents are not a state.
    #[error(transparent)]
    NotAState(#[from] InvalidState),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{StateRecovery, recover_state, with_serial};

    fn state(lineage: &str, serial: u64, name: &str) -> String {
        format!(
            r#"{{"version":4,"serial":{serial},"lineage":"{lineage}","resources":[{{"mode":"managed","type":"t","name":"{name}","instances":[{{"attributes":{{"n":1.50}}}}]}}]}}"#
        )
    }

    fn workspace(dir: &tempfile::TempDir) -> WorkspaceDir {
        let workspace = WorkspaceDir::at(dir.path());
        workspace.sync_files([]).unwrap();
        workspace
    }

    fn contents(kept: &KeptState) -> String {
        fs::read_to_string(&kept.path).unwrap()
    }

    #[test]
    fn a_chosen_state_is_what_the_next_run_starts_from_and_the_replaced_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = workspace(&dir);
        let file = workspace.state_path();
        for serial in 1..=3 {
            fs::write(&file, state("a", serial, "old")).unwrap();
            workspace.snapshots().store_if_newer(&fs::read(&file).unwrap()).unwrap();
        }
        fs::write(errored_path(&workspace), state("a", 4, "errored")).unwrap();
        // Another lineage with a lower serial: only a person can want that.
        let chosen = state("b", 2, "chosen");
        replace_state_file(&workspace, chosen.as_bytes()).unwrap();
        assert_eq!(recover_state(&workspace).unwrap().source, StateRecovery::Intact(2));
        assert_eq!(fs::read_to_string(&file).unwrap(), chosen);
        let kept = list_kept_states(&workspace).unwrap();
        assert_eq!((kept[0].place, contents(&kept[0])), (KeptPlace::StateFile, chosen));
        let aside: Vec<String> = kept[1..].iter().map(contents).collect();
        assert!(
            aside.contains(&state("a", 3, "old")) && aside.contains(&state("a", 4, "errored")),
            "{aside:?}"
        );
        assert!(kept[1..].iter().all(|it| it.place == KeptPlace::SetAside), "{kept:?}");
    }

    #[test]
    fn an_interrupted_replacement_is_completed_by_the_next_run() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = workspace(&dir);
        fs::write(workspace.state_path(), state("a", 3, "old")).unwrap();
        let chosen = state("a", 4, "chosen");
        // What is on the disk if the process dies before the file is written.
        let version = StateVersion::parse(chosen.as_bytes()).unwrap();
        workspace.snapshots().store_chosen(&version, chosen.as_bytes()).unwrap();
        let recovered = recover_state(&workspace).unwrap();
        assert_eq!(recovered.source, StateRecovery::FromSnapshot { serial: 4, problem: "behind" });
        assert_eq!(fs::read_to_string(workspace.state_path()).unwrap(), chosen);
    }

    #[test]
    fn another_serial_changes_nothing_else() {
        let text = with_serial(state("a", 3, "x").as_bytes(), 9).unwrap();
        assert_eq!(StateVersion::parse(&text).unwrap().serial, 9);
        assert!(String::from_utf8(text).unwrap().contains(r#"{"n":1.50}"#), "numbers keep their text");
    }
}
