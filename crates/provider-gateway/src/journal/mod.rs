//! Journal of applied changes, on disk before Terraform gets the response.
//!
//! One JSON line for the start and one for the end of each change. The end is flushed to disk before the response is
//! sent, so created resources are recorded whatever happens to Terraform, its state file or the gateway. The start is
//! written without a flush; a full disk is detected there, before anything is created.
//!
//! Both are replicated to a follower, if there is one: the start before the change is sent, the end before the response is.
//!
//! The next run of the workspace reads its entries ([`crate::replay`]) and then has them dropped, so the size of the file is
//! bounded by the changes of the runs in progress and of those that were killed.
//!
//! The file contains resource values, including secrets: mode 0600, in a directory with mode 0700.

mod entry;
mod file;
mod replicas;
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
use replicas::Replicas;
pub use replicas::{JournalBatch, JournalFeed, JournalReceipt, ReplicationOutcome, is_replicated};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::{clock, counters::Counters, private_fs};

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
    replicas: Arc<Replicas>,
}

impl Journal {
    /// Opens the journal for appending; truncates a torn last line.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_counting(path, Arc::default())
    }

    /// Like [`Self::open`], with counters of the entries that were not replicated.
    pub fn open_counting(path: &Path, counters: Arc<Counters>) -> io::Result<Self> {
        let file = private_fs::open_append(path)?;
        truncate_torn_line(&file, path)?;
        let entries = read_entries(path)?;
        let order = entries.last().map_or(0, |entry| entry.order);
        // Calls of an earlier gateway may still be in the file; a number must not be used twice.
        let call = entries.iter().map(|entry| entry.call).max().unwrap_or(0);
        Self::spawn_writer(file, path, (order, call), counters)
    }

    fn spawn_writer(
        file: File,
        path: &Path,
        (order, call): (u64, u64),
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let (queue, inbox) = mpsc::channel(1024);
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let replicas = Arc::new(Replicas::new(counters));
        let written = Arc::clone(&replicas);
        let writer = JournalWriter { file, path: path.to_owned(), order, replaced: false, replicas: written };
        thread.spawn(move || writer.run(inbox))?;
        let next_call = Arc::new(AtomicU64::new(call + 1));
        let in_flight = Arc::default();
        Ok(Self { path: path.to_owned(), writes: queue, next_call, in_flight, replicas })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes of a workspace that its provider has not answered yet. One that is missing here has its end on disk.
    pub fn in_flight(&self, workspace: &str) -> Vec<ChangeInFlight> {
        self.in_flight.lock().values().filter(|change| change.workspace == workspace).cloned().collect()
    }

    /// Records the start of a change, and waits until it is replicated; returns the call number for [`Self::record_end`].
    pub async fn record_start(&self, change: &ChangeCall<'_>) -> Result<u64, String> {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed);
        let entry = JournalEntry::of_start(change, call);
        let started = ChangeInFlight {
            workspace: entry.workspace.clone(),
            kind: entry.kind.clone(),
            since: clock::now(),
        };
        self.in_flight.lock().insert(call, started);
        match self.append_start(entry).await {
            Ok(()) => Ok(call),
            Err(error) => {
                self.in_flight.lock().remove(&call);
                Err(error)
            }
        }
    }

    /// Writes a start and waits until it is replicated. One that must not happen leaves no entry.
    async fn append_start(&self, entry: JournalEntry) -> Result<(), String> {
        let (call, workspace) = (entry.call, entry.workspace.clone());
        match self.append(entry, false).await? {
            ReplicationOutcome::Done | ReplicationOutcome::DiskOnly => Ok(()),
            ReplicationOutcome::Superseded(reason) => {
                // One that stays is looked up by the next run.
                let _looked_up = self.drop_calls(BTreeSet::from([call])).await;
                Err(format!("{workspace} has a newer leader: {reason}"))
            }
        }
    }

    /// Records the end of a change; returns after it is flushed to disk and replicated.
    pub async fn record_end(
        &self,
        change: &ChangeCall<'_>,
        call: u64,
        answer: Option<&[u8]>,
    ) -> Result<(), String> {
        // Without replication, too, the answer is passed on: the object exists.
        let written = self.append(JournalEntry::of_end(change, call, answer), true).await.map(drop);
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
        let (done, heard) = oneshot::channel();
        self.request(WriteRequest::Drop { calls, done }, heard).await
    }

    /// Says whether the changes of the next run of a workspace are replicated, even before its follower is there.
    pub fn expect_follower(&self, workspace: &str, is_expected: bool) {
        self.replicas.expect(workspace, is_expected);
    }

    /// Follows the entries of a workspace, to store them elsewhere. Replaces an earlier follower.
    pub async fn follow(&self, workspace: &str) -> Result<JournalFeed, String> {
        let (done, heard) = oneshot::channel();
        let request = WriteRequest::Follow { workspace: workspace.to_owned(), done };
        self.request(request, heard).await
    }

    /// Records what the follower made of the last batch.
    pub fn record_receipt(&self, workspace: &str, feed: &JournalFeed, receipt: JournalReceipt) {
        self.replicas.record_receipt(workspace, feed.follower, receipt);
    }

    /// Ends a follower: changes no longer wait for it.
    pub fn unfollow(&self, workspace: &str, feed: &JournalFeed) {
        self.replicas.unfollow(workspace, feed.follower);
    }

    /// Adds the entries of a journal that was lost, under new call numbers. Entries that are here already are left out.
    pub async fn import(&self, entries: Vec<JournalEntry>) -> Result<(), String> {
        let (done, heard) = oneshot::channel();
        let next_call = Arc::clone(&self.next_call);
        self.request(WriteRequest::Import { entries, next_call, done }, heard).await
    }

    async fn append(&self, entry: JournalEntry, flush: bool) -> Result<ReplicationOutcome, String> {
        let (done, heard) = oneshot::channel();
        let replicated = replicas::is_replicated(&entry).then(|| entry.workspace.clone());
        let entry = Box::new(entry);
        let order = self.request(WriteRequest::Append { entry, flush, done }, heard).await?;
        match replicated {
            Some(workspace) => Ok(self.replicas.wait_stored(&workspace, order).await),
            None => Ok(ReplicationOutcome::Done),
        }
    }

    async fn request<T>(
        &self,
        request: WriteRequest,
        heard: oneshot::Receiver<Result<T, String>>,
    ) -> Result<T, String> {
        let gone = || format!("{}: the journal writer has stopped", self.path.display());
        self.writes.send(request).await.map_err(|_| gone())?;
        heard.await.map_err(|_| gone())?.map_err(|error| {
            format!("cannot write the journal {}: {error}; free some space there", self.path.display())
        })
    }
}
