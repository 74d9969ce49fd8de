//! The journal of a data directory, whether its gateway runs or not.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::daemon_files::DaemonFiles;
use provider_gateway::{
    admin::GatewayClientError,
    journal::{Journal, JournalEntry, read_entries},
};
use terraform_driver::workspace::{LockError, files::FileError};
use thiserror::Error;

use super::GatewayHandle;

/// Why journal entries cannot be dropped or added.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The gateway did not do it.
    #[error(transparent)]
    Gateway(#[from] GatewayClientError),
    /// A gateway is starting or exiting.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file cannot be written.
    #[error("{0}")]
    Write(String),
}

/// Path of the journal of a data directory.
pub(super) fn journal_path(data: &Path) -> PathBuf {
    DaemonFiles::of_gateway(data).dir().join("journal.jsonl")
}

/// The entries of a workspace.
pub fn workspace_entries(data: &Path, workspace: &str) -> Result<Vec<JournalEntry>, FileError> {
    let path = journal_path(data);
    let mut entries = read_entries(&path).map_err(|source| FileError::new("read", &path, source))?;
    entries.retain(|entry| entry.workspace == workspace);
    Ok(entries)
}

/// Drops the entries of a workspace and returns how many calls they were of.
pub async fn drop_workspace_entries(data: &Path, workspace: &str) -> Result<usize, JournalError> {
    let calls: BTreeSet<u64> = workspace_entries(data, workspace)?.iter().map(|entry| entry.call).collect();
    let count = calls.len();
    if count == 0 {
        return Ok(0);
    }
    if let Some(server) = GatewayHandle::find_running(data)? {
        server.client().drop_journal_entries(calls).await?;
        return Ok(count);
    }
    let _no_gateway_starts = DaemonFiles::of_gateway(data).acquire_lock().await?;
    let path = journal_path(data);
    let journal = Journal::open(&path).map_err(|source| FileError::new("open", &path, source))?;
    journal.drop_calls(calls).await.map_err(JournalError::Write)?;
    Ok(count)
}
