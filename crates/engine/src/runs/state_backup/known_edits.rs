//! What a directory knows of the states that a person has put into the store; kept in `.capt/state-edits.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use terraform_driver::workspace::{
    WorkspaceDir,
    files::{FileError, read_json, write_json},
};

/// Edits by hand that a directory knows of.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownEdits {
    /// The number of edits that the directory has taken over.
    pub(super) taken: u64,
    /// The number of edits when directory and store were reported as two histories. A later edit decides which one is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reported: Option<u64>,
}

impl KnownEdits {
    pub(super) fn read(workspace: &WorkspaceDir) -> Result<Self, FileError> {
        Ok(read_json(&path(workspace))?.unwrap_or_default())
    }

    /// Writes it if it differs. Most directories never see an edit and have no file.
    pub(super) fn write(&self, workspace: &WorkspaceDir) -> Result<(), FileError> {
        if *self == Self::read(workspace)? { Ok(()) } else { write_json(&path(workspace), self) }
    }
}

fn path(workspace: &WorkspaceDir) -> PathBuf {
    workspace.meta_dir().join("state-edits.json")
}
