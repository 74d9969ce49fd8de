//! The bundle that a directory has exchanged with the store last; kept in `.capt/backup-bundle.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    hex::hex,
    workspace::{
        WorkspaceDir,
        files::{FileError, create_private_dir, read_json, write_json},
    },
};

/// A digest of the bundle. If the stored one differs, another leader has written it since.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExchangedBundle {
    sha256: String,
}

impl ExchangedBundle {
    pub(super) fn of(bundle: &[u8]) -> Self {
        Self { sha256: hex(Sha256::digest(bundle)) }
    }

    /// `None` if the directory has not exchanged any, or only with an older version of this program.
    pub(super) fn read(workspace: &WorkspaceDir) -> Result<Option<Self>, FileError> {
        read_json(&path(workspace))
    }

    pub(super) fn write(&self, workspace: &WorkspaceDir) -> Result<(), FileError> {
        create_private_dir(&workspace.meta_dir())?;
        write_json(&path(workspace), self)
    }
}

fn path(workspace: &WorkspaceDir) -> PathBuf {
    workspace.meta_dir().join("backup-bundle.json")
}
