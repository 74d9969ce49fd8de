//! Ordered, durable storage of objects: the current state, a bounded history, and watches.
//!
//! **Guarantees**
//! - Every write gets the next revision; an acknowledged write survives a kill and a power failure.
//! - Everything that can be read is durable. A write becomes durable, then visible, then it is sent to watches, then it
//!   is acknowledged.
//! - Preconditions are evaluated in write order; a caller that gets a conflict can already read the winning object.
//! - A watch delivers every matching event after its revision exactly once and in order, or ends with [`Expired`]. A
//!   slow reader neither blocks the writer nor grows memory.
//! - A failed write has no effect, and the next one is attempted normally.
//!
//! Reads never touch the disk; only the writer thread of each store (`writer`) does.

mod disk;
mod error;
mod secondary_index;
mod state;
mod types;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

pub use self::{
    error::{Expired, StoreError, WriteError},
    types::{
        Entry, HistoryLimits, IndexTerm, ListOptions, Precondition, RevisionGuard, Snapshot, StoreEvent,
        StoreLocation, WriteResult,
    },
    watch::Watch,
};
use self::{
    state::StoreState,
    writer::{WriteRequest, WriterMessage},
};
use crate::object::{Draft, IndexedMeta};

/// State shared by the writer, readers and watches.
#[derive(Debug)]
struct SharedState {
    view: RwLock<StoreState>,
}

/// A store. Cheap to clone; dropping the last clone closes it.
#[derive(Debug, Clone)]
pub struct Store(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<SharedState>,
    /// `None` only while the handle is dropped.
    queue: Option<mpsc::Sender<WriterMessage>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens an existing store or creates an empty one.
    pub async fn open(place: StoreLocation, settings: HistoryLimits) -> Result<Self, StoreError> {
        let (queue, messages) = mpsc::channel();
        let (opened, ready) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("kube-store".to_owned())
            .spawn(move || writer::run_writer(&place, settings, opened, &messages))
            .map_err(StoreError::thread)?;
        let shared = ready.await.map_err(|_| StoreError::Closed)??;
        Ok(Self(Arc::new(Handle { shared, queue: Some(queue), thread: Mutex::new(Some(thread)) })))
    }

    /// Newest durable revision. An empty store is at 1; its first write is 2.
    pub fn revision(&self) -> u64 {
        self.0.shared.view.read().revision()
    }

    /// Oldest revision that can be listed and from which a watch can start.
    #[cfg(test)]
    pub fn oldest_revision(&self) -> u64 {
        self.0.shared.view.read().floor()
    }

    /// Reads the current state of one object.
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.0.shared.view.read().get(key).cloned()
    }

    /// Lists all objects whose key starts with `prefix`, in byte order of the keys, now or at an older revision. A
    /// future revision means now.
    pub fn list(&self, prefix: &str, page: &ListOptions) -> Result<Snapshot, Expired> {
        self.0.shared.view.read().list(prefix, page)
    }

    /// Finds the current objects under `prefix` that have all index terms of at least one alternative and pass the
    /// filter. An empty alternative matches everything; more terms mean fewer scanned objects.
    pub fn find(
        &self,
        prefix: &str,
        alternatives: &[Vec<IndexTerm<'_>>],
        fits: impl Fn(&IndexedMeta) -> bool,
    ) -> Snapshot {
        self.0.shared.view.read().find(prefix, alternatives, fits)
    }

    /// Writes one object, or deletes it (`None`). Deleting a missing object is a conflict. The write continues if the
    /// caller stops waiting.
    pub async fn write(
        &self,
        key: &str,
        expect: Precondition,
        draft: Option<Draft>,
    ) -> Result<WriteResult, WriteError> {
        self.write_guarded(key, expect, draft, Vec::new()).await
    }

    /// As [`Store::write`], if no guard has changed; guards are evaluated in write order too.
    pub async fn write_guarded(
        &self,
        key: &str,
        expect: Precondition,
        draft: Option<Draft>,
        guards: Vec<RevisionGuard>,
    ) -> Result<WriteResult, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.send(WriterMessage::Write(WriteRequest { key: key.into(), expect, draft, guards, reply }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Streams every event after revision `after` whose key starts with `prefix`. The watch ends when the store closes.
    pub fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Expired> {
        Watch::start(&self.0.shared, prefix, after)
    }

    /// Drops the history: older revisions return [`Expired`] from now on, also to watches that lag behind.
    pub fn expire_history(&self) {
        let forgotten = self.0.shared.view.write().drop_history();
        drop(forgotten);
        // A closed store has nothing to compact.
        self.send(WriterMessage::Compact).ok();
    }

    /// Closes the store for all clones after the pending writes. The directory is unlocked afterwards.
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.send(WriterMessage::Close(done)).is_ok() {
            // An error means that another close has already finished.
            closed.await.ok();
        }
    }

    fn send(&self, message: WriterMessage) -> Result<(), StoreError> {
        let queue = self.0.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(message).map_err(|_| StoreError::Closed)
    }
}

impl Drop for Handle {
    /// Waits for the writer thread, so that the directory can be reopened after the last clone is dropped.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.get_mut().take() {
            // A writer that panicked has printed to stderr already.
            thread.join().ok();
        }
    }
}
