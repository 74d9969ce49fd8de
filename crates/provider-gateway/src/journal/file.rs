//! The journal's file: writer thread, reading, and dropping of entries.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tokio::sync::{mpsc, oneshot};

use super::JournalEntry;
use crate::private_fs;

type Done = oneshot::Sender<Result<(), String>>;

pub(super) enum WriteRequest {
    /// Appends an entry.
    Append { entry: Box<JournalEntry>, flush: bool, done: Done },
    /// Drops the entries of these calls.
    Drop { calls: BTreeSet<u64>, done: Done },
}

/// Writer thread: a flush takes milliseconds, so all waiting entries are flushed together.
pub(super) struct JournalWriter {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) order: u64,
    /// The file at the path is another one than the open one.
    pub(super) replaced: bool,
}

impl JournalWriter {
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<WriteRequest>) {
        while let Some(first) = inbox.blocking_recv() {
            let (mut written, mut drops) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(request) = next {
                match request {
                    WriteRequest::Append { mut entry, flush, done } => {
                        self.order += 1;
                        entry.order = self.order;
                        written.push((self.write_entry(&entry), flush, done));
                    }
                    WriteRequest::Drop { calls, done } => drops.push((calls, done)),
                }
                next = inbox.try_recv().ok();
            }
            self.confirm(written);
            for (calls, done) in drops {
                // The receiver may have been cancelled.
                let _heard = done.send(self.drop_calls(&calls).map_err(|error| error.to_string()));
            }
        }
    }

    fn confirm(&self, written: Vec<(io::Result<()>, bool, Done)>) {
        let flushed = if written.iter().any(|(_, flush, _)| *flush) { self.file.sync_data() } else { Ok(()) };
        for (outcome, flush, done) in written {
            let outcome = outcome.and_then(|()| match &flushed {
                Err(error) if flush => Err(io::Error::new(error.kind(), error.to_string())),
                _ => Ok(()),
            });
            // The receiver may have been cancelled.
            let _heard = done.send(outcome.map_err(|error| error.to_string()));
        }
    }

    /// Writes a whole line or nothing: the rest of a torn line would corrupt the next.
    fn write_entry(&mut self, entry: &JournalEntry) -> io::Result<()> {
        self.reopen_replaced()?;
        let length = self.file.metadata()?.len();
        let line = to_line(entry)?;
        self.file.write_all(&line).inspect_err(|_| {
            // If truncation fails, the torn line is removed at the next open.
            let _next_time = self.file.set_len(length);
        })
    }

    /// Replaces the file by one without these calls. A kill in between leaves the old file, whose surplus entries are
    /// harmless: the next run finds their changes in the state.
    fn drop_calls(&mut self, calls: &BTreeSet<u64>) -> io::Result<()> {
        let entries = read_entries(&self.path)?;
        if !entries.iter().any(|entry| calls.contains(&entry.call)) {
            return Ok(());
        }
        let mut kept = Vec::new();
        for entry in entries.iter().filter(|entry| !calls.contains(&entry.call)) {
            kept.extend(to_line(entry)?);
        }
        private_fs::write_atomic(&self.path, &kept)?;
        self.replaced = true;
        self.reopen_replaced()
    }

    fn reopen_replaced(&mut self) -> io::Result<()> {
        if self.replaced {
            self.file = private_fs::open_append(&self.path)?;
            self.replaced = false;
        }
        Ok(())
    }
}

fn to_line(entry: &JournalEntry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads the entries of a journal. Torn and invalid lines are skipped.
pub fn read_entries(path: &Path) -> io::Result<Vec<JournalEntry>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        // A file where the gateway's directory should be: no gateway ever ran.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let lines = bytes.get(..whole_length(&bytes)).unwrap_or_default().split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

pub(super) fn truncate_torn_line(file: &File, path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let whole = whole_length(&bytes);
    if whole < bytes.len() { file.set_len(whole as u64) } else { Ok(()) }
}

/// Length of the complete lines.
fn whole_length(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}
