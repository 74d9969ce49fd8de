//! Replication of entries to a follower outside of this process, which stores them where the loss of the disk cannot reach them.
//!
//! The entries of a workspace are replicated if its runs ask for it, or if a follower is there. A change waits until the follower
//! has stored its entry, but not for long: without an answer it goes on with the disk alone, and so do all others until the follower
//! answers again. A follower always gets all entries first, so that it catches up by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use super::JournalEntry;
use crate::counters::Counters;

/// Longest time that a change waits for its entry to be stored.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes of the journal of one workspace, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalBatch {
    /// Whether these entries are all that there are; forget earlier ones.
    pub is_complete: bool,
    /// New entries.
    pub entries: Vec<JournalEntry>,
    /// Calls whose entries were dropped.
    pub dropped: BTreeSet<u64>,
    /// Order of the last entry.
    pub order: u64,
}

impl JournalBatch {
    /// Adds a later batch to this one.
    pub fn append(&mut self, later: Self) {
        if later.is_complete {
            *self = later;
            return;
        }
        self.entries.retain(|entry| !later.dropped.contains(&entry.call));
        self.entries.extend(later.entries);
        self.dropped.extend(later.dropped);
        self.order = self.order.max(later.order);
    }
}

/// What became of the last batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JournalReceipt {
    /// Everything up to this order is stored.
    Stored {
        /// Order of the last entry.
        order: u64,
    },
    /// It is not stored; the follower tries again.
    Failed {
        /// The error message.
        reason: String,
    },
    /// Somebody else is the leader, and must not be disturbed by further changes.
    Superseded {
        /// The error message.
        reason: String,
    },
}

/// Whether a change may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicationOutcome {
    /// Nothing is replicated, or the entry is stored.
    Done,
    /// The entry is on the disk only.
    DiskOnly,
    /// Nothing may be changed any more.
    Superseded(String),
}

/// How changes of a workspace proceed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    /// They wait for the follower.
    Replicated,
    /// They do not wait: there is no follower, or it does not answer.
    DiskOnly,
    /// None may begin.
    Superseded(String),
}

#[derive(Debug, Clone)]
struct Progress {
    stored: u64,
    mode: Mode,
}

struct Replica {
    /// A run asked for replication.
    is_expected: bool,
    follower: Option<(u64, mpsc::UnboundedSender<JournalBatch>)>,
    progress: watch::Sender<Progress>,
}

impl Replica {
    fn new() -> Self {
        let progress = watch::Sender::new(Progress { stored: 0, mode: Mode::Replicated });
        Self { is_expected: false, follower: None, progress }
    }

    fn set_mode(&self, mode: Mode) {
        self.progress.send_modify(|progress| progress.mode = mode);
    }
}

/// The followers of all workspaces.
pub(super) struct Replicas {
    by_workspace: Mutex<BTreeMap<String, Replica>>,
    next_follower: Mutex<u64>,
    counters: Arc<Counters>,
}

/// The entries that a follower has to store.
#[derive(Debug)]
pub struct JournalFeed {
    pub(super) follower: u64,
    batches: mpsc::UnboundedReceiver<JournalBatch>,
}

impl JournalFeed {
    /// All that there is to store now; waits until there is something. `None` if another follower has taken over. Cancel-safe.
    pub async fn next(&mut self) -> Option<JournalBatch> {
        let mut batch = self.batches.recv().await?;
        while let Ok(later) = self.batches.try_recv() {
            batch.append(later);
        }
        Some(batch)
    }
}

impl Replicas {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self { by_workspace: Mutex::default(), next_follower: Mutex::new(0), counters }
    }

    /// Says whether the changes of a run that begins now are replicated.
    pub(super) fn expect(&self, workspace: &str, is_expected: bool) {
        let mut replicas = self.by_workspace.lock();
        if is_expected {
            let replica = replicas.entry(workspace.to_owned()).or_insert_with(Replica::new);
            replica.is_expected = true;
            if replica.follower.is_none() {
                replica.set_mode(Mode::Replicated);
            }
        } else if replicas.get(workspace).is_some_and(|replica| replica.follower.is_none()) {
            replicas.remove(workspace);
        }
    }

    /// Adds a follower, which gets all entries of the workspace first. It replaces an earlier one. Called by the writer of the
    /// journal, so that no entry is missing or comes twice.
    pub(super) fn follow(&self, workspace: &str, entries: Vec<JournalEntry>, order: u64) -> JournalFeed {
        let (sender, batches) = mpsc::unbounded_channel();
        let follower = {
            let mut next = self.next_follower.lock();
            *next += 1;
            *next
        };
        let all = JournalBatch { is_complete: true, entries, dropped: BTreeSet::new(), order };
        // The receiver is below.
        let _received = sender.send(all);
        let mut replicas = self.by_workspace.lock();
        let replica = replicas.entry(workspace.to_owned()).or_insert_with(Replica::new);
        replica.follower = Some((follower, sender));
        replica.set_mode(Mode::Replicated);
        JournalFeed { follower, batches }
    }

    /// Removes a follower. Changes that wait for it go on.
    pub(super) fn unfollow(&self, workspace: &str, follower: u64) {
        let mut replicas = self.by_workspace.lock();
        let Some(replica) = replicas.get_mut(workspace) else { return };
        if replica.follower.as_ref().is_none_or(|(id, _)| *id != follower) {
            return;
        }
        replica.follower = None;
        if replica.progress.borrow().mode == Mode::Replicated {
            replica.set_mode(Mode::DiskOnly);
        }
        if !replica.is_expected {
            replicas.remove(workspace);
        }
    }

    /// Gives an entry that was written to the follower of its workspace.
    pub(super) fn publish(&self, entry: &JournalEntry) {
        if is_replicated(entry) {
            let batch =
                JournalBatch { entries: vec![entry.clone()], order: entry.order, ..JournalBatch::default() };
            self.send(|workspace| (*workspace == entry.workspace).then(|| batch.clone()));
        }
    }

    /// Tells all followers which calls were dropped; numbers of other workspaces mean nothing to them.
    pub(super) fn publish_dropped(&self, calls: &BTreeSet<u64>) {
        self.send(|_| Some(JournalBatch { dropped: calls.clone(), ..JournalBatch::default() }));
    }

    fn send(&self, batch: impl Fn(&String) -> Option<JournalBatch>) {
        for (workspace, replica) in self.by_workspace.lock().iter() {
            if let (Some((_, sender)), Some(batch)) = (&replica.follower, batch(workspace)) {
                // A follower that has just ended gets everything again when it comes back.
                let _ended = sender.send(batch);
            }
        }
    }

    /// Records what a follower answered.
    pub(super) fn record_receipt(&self, workspace: &str, follower: u64, receipt: JournalReceipt) {
        let replicas = self.by_workspace.lock();
        let Some(replica) = replicas.get(workspace) else { return };
        if replica.follower.as_ref().is_none_or(|(id, _)| *id != follower) {
            return;
        }
        match receipt {
            JournalReceipt::Stored { order } => replica.progress.send_modify(|progress| {
                if progress.mode == Mode::DiskOnly {
                    tracing::info!(workspace, "the journal is replicated again");
                }
                *progress = Progress { stored: progress.stored.max(order), mode: Mode::Replicated };
            }),
            JournalReceipt::Failed { reason } => {
                warn_disk_only(workspace, &reason);
                replica.set_mode(Mode::DiskOnly);
            }
            JournalReceipt::Superseded { reason } => replica.set_mode(Mode::Superseded(reason)),
        }
    }

    /// Waits until an entry is stored.
    pub(super) async fn wait_stored(&self, workspace: &str, order: u64) -> ReplicationOutcome {
        let progress = self.by_workspace.lock().get(workspace).map(|replica| replica.progress.subscribe());
        let Some(mut progress) = progress else { return ReplicationOutcome::Done };
        let ends = |progress: &Progress| progress.stored >= order || progress.mode != Mode::Replicated;
        let waited = tokio::time::timeout(PATIENCE, progress.wait_for(ends)).await;
        let reached = match waited {
            Ok(Ok(progress)) => Some(progress.clone()),
            // The replica was removed with its follower.
            Ok(Err(_)) => Some(Progress { stored: 0, mode: Mode::DiskOnly }),
            Err(_) => None,
        };
        let outcome = match reached {
            Some(Progress { stored, .. }) if stored >= order => ReplicationOutcome::Done,
            Some(Progress { mode: Mode::Superseded(reason), .. }) => ReplicationOutcome::Superseded(reason),
            Some(_) => ReplicationOutcome::DiskOnly,
            None => {
                warn_disk_only(workspace, "no answer within two seconds");
                self.fall_back(workspace);
                ReplicationOutcome::DiskOnly
            }
        };
        if outcome == ReplicationOutcome::DiskOnly {
            self.counters.not_replicated.increment();
        }
        outcome
    }

    fn fall_back(&self, workspace: &str) {
        if let Some(replica) = self.by_workspace.lock().get(workspace)
            && replica.progress.borrow().mode == Mode::Replicated
        {
            replica.set_mode(Mode::DiskOnly);
        }
    }
}

/// Whether a replay reads an entry, so that it is replicated.
pub fn is_replicated(entry: &JournalEntry) -> bool {
    entry.method == "ApplyResourceChange"
}

fn warn_disk_only(workspace: &str, reason: &str) {
    tracing::warn!(workspace, reason, "the journal is not replicated; changes go on with the disk alone");
}

#[cfg(test)]
mod tests;
