//! The writer thread of a store: takes all queued writes, makes them durable together, publishes them, and replies, in
//! that order.

use std::sync::{Arc, mpsc};

use parking_lot::RwLock;
use tokio::sync::oneshot;

use super::{
    SharedState,
    disk::DiskLog,
    error::{StoreError, WriteError},
    state::{Batch, INITIAL_REVISION, StoreState},
    types::{HistoryLimits, Precondition, RevisionGuard, StoreLocation, WriteResult},
};
use crate::object::{Document, Draft};

/// Maximum number of writes per transaction, and the bytes after which no more are added: bounds how long readers are
/// locked out and the memory of a transaction.
const MAX_BATCH_WRITES: usize = 512;
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Compaction starts after this many rows or bytes of garbage.
const COMPACTION_ROWS: usize = 512;
const COMPACTION_BYTES: usize = 8 << 20;

/// Maximum number of rows deleted before queued writes are processed again.
const MAX_ROWS_PER_COMPACTION: usize = 1024;

pub enum WriterMessage {
    Write(WriteRequest),
    /// The history was truncated.
    Compact,
    Close(oneshot::Sender<()>),
    /// Access to the connection, for tests.
    #[cfg(test)]
    Probe(Box<dyn FnOnce(&rusqlite::Connection) + Send>),
}

pub struct WriteRequest {
    pub key: Arc<str>,
    pub expect: Precondition,
    pub draft: Option<Draft>,
    pub guards: Vec<RevisionGuard>,
    pub reply: oneshot::Sender<Result<WriteResult, WriteError>>,
}

type StagedResult = Result<(u64, Document), WriteError>;
type OpenReply = oneshot::Sender<Result<Arc<SharedState>, StoreError>>;

struct Writer {
    shared: Arc<SharedState>,
    disk: Option<DiskLog>,
}

/// Opens the store, reports the result, and serves until all handles are dropped.
pub fn run_writer(
    place: &StoreLocation,
    settings: HistoryLimits,
    opened: OpenReply,
    queue: &mpsc::Receiver<WriterMessage>,
) {
    let (disk, view) = match place {
        StoreLocation::Memory => (None, StoreState::new(settings, INITIAL_REVISION)),
        StoreLocation::Dir(dir) => match DiskLog::open(dir, settings) {
            Ok((disk, view)) => (Some(disk), view),
            Err(error) => return drop(opened.send(Err(error))),
        },
    };
    let shared = Arc::new(SharedState { view: RwLock::new(view) });
    let mut writer = Writer { shared: shared.clone(), disk };
    if opened.send(Ok(shared)).is_ok() {
        let done = writer.serve(queue);
        writer.shut_down();
        if let Some(done) = done {
            done.send(()).ok();
        }
    }
}

impl Writer {
    /// Serves until all handles are dropped or a close is requested.
    fn serve(&mut self, queue: &mpsc::Receiver<WriterMessage>) -> Option<oneshot::Sender<()>> {
        while let Ok(first) = queue.recv() {
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    WriterMessage::Write(write) => next = self.write_batch(write, queue),
                    WriterMessage::Compact => self.compact(0, 0),
                    WriterMessage::Close(done) => return Some(done),
                    #[cfg(test)]
                    WriterMessage::Probe(look) => {
                        if let Some(disk) = &self.disk {
                            look(disk.connection());
                        }
                    }
                }
            }
        }
        None
    }

    /// Writes this request and those queued behind it. Returns the first message that is not a write.
    fn write_batch(
        &mut self,
        first: WriteRequest,
        queue: &mpsc::Receiver<WriterMessage>,
    ) -> Option<WriterMessage> {
        let mut batch = Batch::default();
        let mut replies = Vec::new();
        let mut other = None;
        self.stage(&mut batch, &mut replies, first);
        while replies.len() < MAX_BATCH_WRITES && batch.bytes < MAX_BATCH_BYTES {
            match queue.try_recv() {
                Ok(WriterMessage::Write(write)) => self.stage(&mut batch, &mut replies, write),
                Ok(message) => {
                    other = Some(message);
                    break;
                }
                Err(_) => break,
            }
        }
        self.commit(batch, replies);
        self.compact(COMPACTION_ROWS, COMPACTION_BYTES);
        if let Some(disk) = &mut self.disk {
            disk.checkpoint();
        }
        other
    }

    fn stage(
        &self,
        batch: &mut Batch,
        replies: &mut Vec<(oneshot::Sender<Result<WriteResult, WriteError>>, StagedResult)>,
        write: WriteRequest,
    ) {
        let WriteRequest { key, expect, draft, guards, reply } = write;
        let view = self.shared.view.read();
        let verdict = if batch.guards_hold(&view, &guards) {
            batch.stage(&view, key, expect, draft.as_ref()).map_err(WriteError::Conflict)
        } else {
            Err(WriteError::GuardChanged)
        };
        drop(view);
        replies.push((reply, verdict));
    }

    /// Makes a batch durable, publishes it and replies. If it cannot be made durable, every write of the batch fails:
    /// even a conflict may be with a write that never happened.
    fn commit(
        &mut self,
        batch: Batch,
        replies: Vec<(oneshot::Sender<Result<WriteResult, WriteError>>, StagedResult)>,
    ) {
        let stored = match &mut self.disk {
            Some(disk) if !batch.events.is_empty() => disk.append(&batch.events),
            _ => Ok(()),
        };
        if stored.is_ok() {
            self.publish(batch);
        }
        for (reply, verdict) in replies {
            let answer = match (&stored, verdict) {
                (Err(error), _) => Err(WriteError::Io(error.clone())),
                (Ok(()), Ok((revision, document))) => Ok(WriteResult { revision, document }),
                (Ok(()), Err(refusal)) => Err(refusal),
            };
            // The caller may have stopped waiting.
            reply.send(answer).ok();
        }
    }

    fn publish(&self, batch: Batch) {
        let mut view = self.shared.view.write();
        let woken: Vec<_> = batch.events.into_iter().flat_map(|event| view.apply(event)).collect();
        let gone = view.trim();
        drop(view);
        for slot in woken {
            slot.wake();
        }
        drop(gone);
    }

    /// Deletes garbage from the disk, once it is worth a transaction.
    fn compact(&mut self, rows: usize, bytes: usize) {
        let mut view = self.shared.view.write();
        let floor = view.floor();
        let garbage = view.garbage();
        if garbage.revisions.len() < rows && garbage.bytes < bytes {
            return;
        }
        let revisions = garbage.take(MAX_ROWS_PER_COMPACTION);
        drop(view);
        let Some(disk) = &mut self.disk else { return };
        if let Err(error) = disk.compact(floor, &revisions) {
            tracing::warn!(error = &error as &dyn std::error::Error, "compaction failed, retrying later");
            self.shared.view.write().garbage().put_back(revisions);
        }
    }

    /// Closes the disk first: a notified caller may reopen the directory immediately.
    fn shut_down(&mut self) {
        if let Some(disk) = self.disk.take() {
            disk.close();
        }
        let mut view = self.shared.view.write();
        view.closed = true;
        let watches = view.watchers.all();
        drop(view);
        for slot in watches {
            slot.wake();
        }
    }
}
