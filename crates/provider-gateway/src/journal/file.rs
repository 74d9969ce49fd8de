//! The journal's file: writer thread, reading, and dropping of entries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{mpsc, oneshot};

use super::{
    JournalEntry, JournalFeed,
    replicas::{self, Replicas},
};
use crate::private_fs;

type Done<T> = oneshot::Sender<Result<T, String>>;

pub(super) enum WriteRequest {
    /// Appends an entry; the answer is its order.
    Append { entry: Box<JournalEntry>, flush: bool, done: Done<u64> },
    /// Drops the entries of these calls.
    Drop { calls: BTreeSet<u64>, done: Done<()> },
    /// Appends the entries of another journal.
    Import { entries: Vec<JournalEntry>, next_call: Arc<AtomicU64>, done: Done<()> },
    /// Adds a follower of a workspace.
    Follow { workspace: String, done: Done<JournalFeed> },
}

/// Writer thread: a flush takes milliseconds, so all waiting entries are flushed together.
pub(super) struct JournalWriter {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) order: u64,
    /// The file at the path is another one than the open one.
    pub(super) replaced: bool,
    /// They get every entry as soon as it is written.
    pub(super) replicas: Arc<Replicas>,
}

/// An entry that was written, and waits for the flush.
struct Written {
    outcome: io::Result<u64>,
    flush: bool,
    done: Done<u64>,
}

impl JournalWriter {
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<WriteRequest>) {
        while let Some(first) = inbox.blocking_recv() {
            let (mut written, mut others) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(request) = next {
                match request {
                    WriteRequest::Append { entry, flush, done } => {
                        written.push(Written { outcome: self.append(*entry), flush, done });
                    }
                    other => others.push(other),
                }
                next = inbox.try_recv().ok();
            }
            self.confirm(written);
            for request in others {
                self.answer(request);
            }
        }
    }

    /// Appends an entry, and gives it to its follower, which stores it while it is flushed here.
    fn append(&mut self, mut entry: JournalEntry) -> io::Result<u64> {
        self.order += 1;
        entry.order = self.order;
        self.write_entry(&entry)?;
        self.replicas.publish(&entry);
        Ok(self.order)
    }

    fn confirm(&self, written: Vec<Written>) {
        let flushed = if written.iter().any(|it| it.flush) { self.file.sync_data() } else { Ok(()) };
        for Written { outcome, flush, done } in written {
            let outcome = outcome.and_then(|order| match &flushed {
                Err(error) if flush => Err(io::Error::new(error.kind(), error.to_string())),
                _ => Ok(order),
            });
            // The receiver may have been cancelled.
            let _heard = done.send(outcome.map_err(|error| error.to_string()));
        }
    }

    fn answer(&mut self, request: WriteRequest) {
        // In all cases, the receiver may have been cancelled.
        match request {
            WriteRequest::Append { entry, done, .. } => {
                let _heard = done.send(self.append(*entry).map_err(|error| error.to_string()));
            }
            WriteRequest::Drop { calls, done } => {
                let _heard = done.send(self.drop_calls(&calls).map_err(|error| error.to_string()));
            }
            WriteRequest::Import { entries, next_call, done } => {
                let _heard = done.send(self.import(entries, &next_call).map_err(|error| error.to_string()));
            }
            WriteRequest::Follow { workspace, done } => {
                let _heard = done.send(self.follow(&workspace).map_err(|error| error.to_string()));
            }
        }
    }

    fn follow(&self, workspace: &str) -> io::Result<JournalFeed> {
        let mut entries = read_entries(&self.path)?;
        entries.retain(|entry| entry.workspace == workspace && replicas::is_replicated(entry));
        Ok(self.replicas.follow(workspace, entries, self.order))
    }

    /// Appends entries under new call numbers, and flushes them.
    fn import(&mut self, entries: Vec<JournalEntry>, next_call: &AtomicU64) -> io::Result<()> {
        let known = read_entries(&self.path)?;
        let mut calls: BTreeMap<u64, u64> = BTreeMap::new();
        for mut entry in entries {
            if known.iter().any(|other| other.is_copy_of(&entry)) {
                continue;
            }
            let renumber = || next_call.fetch_add(1, Ordering::Relaxed);
            entry.call = *calls.entry(entry.call).or_insert_with(renumber);
            self.append(entry)?;
        }
        self.file.sync_data()
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
        self.replicas.publish_dropped(calls);
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
