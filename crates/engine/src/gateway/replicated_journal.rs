//! The copy of a workspace's journal that outlives the disk.

use std::path::Path;

use provider_gateway::{
    journal::{Journal, JournalBatch, JournalEntry},
    replay::{StateDocument, contained_calls, recorded_changes},
};
use serde::{Deserialize, Serialize};
use terraform_driver::workspace::files::{FileError, create_private_dir, read_optional, write_atomic};

use super::{GatewayHandle, JournalError, journal_entries::journal_path};
use crate::daemon_files::DaemonFiles;

/// The journal entries of a workspace that no replicated state contains, and where they are from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicatedJournal {
    /// Identity of the journal on the disk. The disk with this journal needs no copy.
    pub source: String,
    /// Its entries.
    pub entries: Vec<JournalEntry>,
}

impl ReplicatedJournal {
    /// Parses a copy; an empty one has no entries.
    pub fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        if bytes.is_empty() { Ok(Self::default()) } else { serde_json::from_slice(bytes) }
    }

    /// Serialises the copy.
    pub fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// Adds a batch of the gateway.
    pub fn apply(&mut self, batch: JournalBatch) {
        if batch.is_complete {
            self.entries.clear();
        }
        self.entries.retain(|entry| !batch.dropped.contains(&entry.call));
        self.entries.extend(batch.entries);
    }

    /// Drops the entries of changes that this state contains.
    pub fn drop_contained(&mut self, workspace: &str, state: &[u8]) {
        let Some(state) = StateDocument::parse(state) else { return };
        let calls = contained_calls(&recorded_changes(&self.entries, workspace), &state);
        self.entries.retain(|entry| !calls.contains(&entry.call));
    }
}

/// Identity of the journal of a data directory, made at the first use. It is lost with the journal.
pub fn journal_source(data: &Path) -> Result<String, FileError> {
    let dir = DaemonFiles::of_gateway(data).dir().to_owned();
    let path = dir.join("journal.id");
    if let Some(id) = read_optional(&path)?.and_then(|bytes| String::from_utf8(bytes).ok()) {
        return Ok(id);
    }
    create_private_dir(&dir)?;
    let id = uuid::Uuid::new_v4().to_string();
    write_atomic(&path, id.as_bytes(), true)?;
    Ok(id)
}

/// Adds the entries of a lost journal to the one of this data directory.
pub async fn import_entries(data: &Path, entries: Vec<JournalEntry>) -> Result<(), JournalError> {
    if let Some(server) = GatewayHandle::find_running(data)? {
        return Ok(server.client().import_journal_entries(entries).await?);
    }
    let files = DaemonFiles::of_gateway(data);
    create_private_dir(files.dir())?;
    let _no_gateway_starts = files.acquire_lock().await?;
    let path = journal_path(data);
    let journal = Journal::open(&path).map_err(|source| FileError::new("open", &path, source))?;
    journal.import(entries).await.map_err(JournalError::Write)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gateway::workspace_entries;

    fn entry(call: u64) -> JournalEntry {
        serde_json::from_value(serde_json::json!({
            "order": call, "time": format!("2026-01-01T00:00:0{call}Z"), "run": "r1", "workspace": "team/demo", "call": call,
            "method": "ApplyResourceChange", "type": "aws_vpc", "stage": "begun",
        }))
        .unwrap()
    }

    fn batch(is_complete: bool, entries: &[u64], dropped: &[u64]) -> JournalBatch {
        JournalBatch {
            is_complete,
            entries: entries.iter().map(|call| entry(*call)).collect(),
            dropped: dropped.iter().copied().collect::<BTreeSet<_>>(),
            order: 0,
        }
    }

    #[test]
    fn a_copy_has_what_the_batches_say() {
        let mut copy = ReplicatedJournal::default();
        for part in [batch(true, &[1, 2], &[]), batch(false, &[3], &[1]), batch(false, &[], &[2])] {
            copy.apply(part);
        }
        assert_eq!(copy.entries, [entry(3)]);
        copy.apply(batch(true, &[4], &[]));
        assert_eq!(ReplicatedJournal::parse(&copy.to_bytes().unwrap()).unwrap().entries, [entry(4)]);
        assert_eq!(ReplicatedJournal::parse(b"").unwrap(), ReplicatedJournal::default());
    }

    #[tokio::test]
    async fn a_lost_journal_is_imported_once_and_without_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            import_entries(dir.path(), vec![entry(7), entry(9)]).await.unwrap();
        }
        let imported = workspace_entries(dir.path(), "team/demo").unwrap();
        assert_eq!(imported.iter().map(|it| it.call).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(imported[0].time, entry(7).time);
        let source = journal_source(dir.path()).unwrap();
        assert_eq!(journal_source(dir.path()).unwrap(), source);
    }
}
