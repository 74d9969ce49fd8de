//! Journal of applied changes, on disk before Terraform gets the response.
//!
//! One JSON line for the start and one for the end of each change. The end is flushed to disk before the response is
//! sent, so created resources are recorded whatever happens to Terraform, its state file or the gateway. The start is
//! written without a flush; a full disk is detected there, before anything is created.
//!
//! The next run of the workspace reads its entries ([`crate::replay`]) and then has them dropped, so the size of the file is
//! bounded by the changes of the runs in progress and of those that were killed.
//!
//! The file contains resource values, including secrets: mode 0600, in a directory with mode 0700.

mod entry;
mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub use entry::{ChangeCall, ChangeStage, JournalEntry};
pub use file::read_entries;
use file::{JournalWriter, WriteRequest, truncate_torn_line};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::{clock, private_fs};

/// A change that the provider has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeInFlight {
    /// Workspace name.
    pub workspace: String,
    /// The resource's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was sent to the provider.
    pub since: Timestamp,
}

/// The open journal.
#[derive(Clone)]
pub struct Journal {
    path: PathBuf,
    writes: mpsc::Sender<WriteRequest>,
    next_call: Arc<AtomicU64>,
    in_flight: Arc<Mutex<BTreeMap<u64, ChangeInFlight>>>,
}

impl Journal {
    /// Opens the journal for appending; truncates a torn last line.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = private_fs::open_append(path)?;
        truncate_torn_line(&file, path)?;
        let entries = read_entries(path)?;
        let order = entries.last().map_or(0, |entry| entry.order);
        // Calls of an earlier gateway may still be in the file; a number must not be used twice.
        let call = entries.iter().map(|entry| entry.call).max().unwrap_or(0);
        Self::spawn_writer(file, path, order, call)
    }

    fn spawn_writer(file: File, path: &Path, order: u64, call: u64) -> io::Result<Self> {
        let (queue, inbox) = mpsc::channel(1024);
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let writer = JournalWriter { file, path: path.to_owned(), order, replaced: false };
        thread.spawn(move || writer.run(inbox))?;
        let next_call = Arc::new(AtomicU64::new(call + 1));
        Ok(Self { path: path.to_owned(), writes: queue, next_call, in_flight: Arc::default() })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes of a workspace that its provider has not answered yet. One that is missing here has its end on disk.
    pub fn in_flight(&self, workspace: &str) -> Vec<ChangeInFlight> {
        self.in_flight.lock().values().filter(|change| change.workspace == workspace).cloned().collect()
    }

    /// Records the start of a change; returns the call number for [`Self::record_end`].
    pub async fn record_start(&self, change: &ChangeCall<'_>) -> Result<u64, String> {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed);
        let entry = JournalEntry::of_start(change, call);
        let started = ChangeInFlight {
            workspace: entry.workspace.clone(),
            kind: entry.kind.clone(),
            since: clock::now(),
        };
        self.in_flight.lock().insert(call, started);
        let written = self.append(entry, false).await;
        if written.is_err() {
            self.in_flight.lock().remove(&call);
        }
        written.map(|()| call)
    }

    /// Records the end of a change; returns after it is flushed to disk.
    pub async fn record_end(
        &self,
        change: &ChangeCall<'_>,
        call: u64,
        answer: Option<&[u8]>,
    ) -> Result<(), String> {
        let written = self.append(JournalEntry::of_end(change, call, answer), true).await;
        self.in_flight.lock().remove(&call);
        written
    }

    /// Records that a change was not sent after all.
    pub async fn cancel_start(&self, call: u64) -> Result<(), String> {
        self.in_flight.lock().remove(&call);
        self.drop_calls(BTreeSet::from([call])).await
    }

    /// Drops the entries of these calls from the file: their changes are in a state, or need none.
    pub async fn drop_calls(&self, calls: BTreeSet<u64>) -> Result<(), String> {
        self.send(|done| WriteRequest::Drop { calls, done }).await
    }

    async fn append(&self, entry: JournalEntry, flush: bool) -> Result<(), String> {
        self.send(|done| WriteRequest::Append { entry: Box::new(entry), flush, done }).await
    }

    async fn send(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<(), String>>) -> WriteRequest,
    ) -> Result<(), String> {
        let gone = || format!("{}: the journal writer has stopped", self.path.display());
        let (done, heard) = oneshot::channel();
        self.writes.send(request(done)).await.map_err(|_| gone())?;
        heard.await.map_err(|_| gone())?.map_err(|error| {
            format!("cannot write the journal {}: {error}; free some space there", self.path.display())
        })
    }
}
