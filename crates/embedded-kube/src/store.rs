//! One ordered, durable history of objects: the present state, the recent past, and watches on both.
//!
//! **Guarantees**
//! - Every write gets the next revision; a write that was acknowledged survives a kill and a power cut.
//! - What can be read is durable. A write is first durable, then visible, then told to watches, then acknowledged.
//! - Expectations are judged in the order of writes; whoever is told of a conflict can already read the winner.
//! - A watch delivers every matching event after its revision exactly once and in order, or ends with [`Expired`].
//!   No reader, however slow, holds up the writer or makes memory grow.
//! - A write that fails leaves no trace, and the next one is tried as if nothing had been.
//!
//! Reads never touch the disk; one thread per store (`writer`) is the only one that does.

mod disk;
mod error;
mod marked;
mod view;
mod watch;
mod words;
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
    watch::Watch,
    words::{Entry, Expect, Guard, Mark, Page, Place, Settings, Snapshot, StoreEvent, Written},
};
use self::{
    view::View,
    writer::{Message, Write},
};
use crate::object::{Draft, Marks};

/// What the writer, the readers and the watches share.
#[derive(Debug)]
struct Shared {
    view: RwLock<View>,
}

/// A store. Cheap to clone; the last clone to go closes it.
#[derive(Debug, Clone)]
pub struct Store(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// `None` only while the handle is dropped.
    queue: Option<mpsc::Sender<Message>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens what is there, or begins anew.
    pub async fn open(place: Place, settings: Settings) -> Result<Self, StoreError> {
        let (queue, messages) = mpsc::channel();
        let (opened, ready) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("kube-store".to_owned())
            .spawn(move || writer::start(&place, settings, opened, &messages))
            .map_err(StoreError::thread)?;
        let shared = ready.await.map_err(|_| StoreError::Closed)??;
        Ok(Self(Arc::new(Handle { shared, queue: Some(queue), thread: Mutex::new(Some(thread)) })))
    }

    /// Newest durable revision. An empty store is at 1, its first write is 2.
    pub fn revision(&self) -> u64 {
        self.0.shared.view.read().revision()
    }

    /// Oldest revision that can still be listed, and after which a watch can begin.
    #[cfg(test)]
    pub fn oldest(&self) -> u64 {
        self.0.shared.view.read().floor()
    }

    /// One object as it is now.
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.0.shared.view.read().get(key).cloned()
    }

    /// All objects whose key begins with `prefix`, in the byte order of keys, now or at an older revision.
    /// A revision that is yet to come counts as now.
    pub fn list(&self, prefix: &str, page: &Page) -> Result<Snapshot, Expired> {
        self.0.shared.view.read().list(prefix, page)
    }

    /// All objects under `prefix` that carry all marks of one of the alternatives and fit, as they are now. No marks
    /// are carried by everything; the more of them, the fewer objects are looked at.
    pub fn find(
        &self,
        prefix: &str,
        alternatives: &[Vec<Mark<'_>>],
        fits: impl Fn(&Marks) -> bool,
    ) -> Snapshot {
        self.0.shared.view.read().find(prefix, alternatives, fits)
    }

    /// Writes one object, or deletes it (`None`). To delete what is not there is a conflict with nothing.
    /// The write goes on if the caller gives up waiting.
    pub async fn write(
        &self,
        key: &str,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Result<Written, WriteError> {
        self.write_guarded(key, expect, draft, Vec::new()).await
    }

    /// As [`Store::write`], if none of the guards has changed; that is judged in the order of writes too.
    pub async fn write_guarded(
        &self,
        key: &str,
        expect: Expect,
        draft: Option<Draft>,
        guards: Vec<Guard>,
    ) -> Result<Written, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Write(Write { key: key.into(), expect, draft, guards, reply }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Every event after revision `after` whose key begins with `prefix`. The watch ends when the store closes.
    pub fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Expired> {
        Watch::begin(&self.0.shared, prefix, after)
    }

    /// Forgets the past: older revisions answer [`Expired`] from now on, also to watches that are behind.
    pub fn expire_history(&self) {
        let forgotten = self.0.shared.view.write().forget();
        drop(forgotten);
        // A closed store has nothing left to tidy.
        self.send(Message::Tidy).ok();
    }

    /// Ends the store for all its clones, after the writes that came before. The directory is free afterwards.
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.send(Message::Close(done)).is_ok() {
            // An error means that another close came first, and is done.
            closed.await.ok();
        }
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let queue = self.0.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(message).map_err(|_| StoreError::Closed)
    }
}

impl Drop for Handle {
    /// Waits for the writer, so that whoever dropped the last clone can open the directory again.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.get_mut().take() {
            // A writer that panicked has said so on stderr, and there is nobody left to tell.
            thread.join().ok();
        }
    }
}
