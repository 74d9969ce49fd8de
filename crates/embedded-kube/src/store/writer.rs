//! The one thread that changes a store: it takes all writes that wait, makes them durable together, shows them, and
//! tells everybody, in that order.

use std::sync::{Arc, mpsc};

use parking_lot::RwLock;
use tokio::sync::oneshot;

use super::{
    Shared,
    disk::Disk,
    error::{StoreError, WriteError},
    view::{Batch, FIRST, View},
    words::{Expect, Guard, Place, Settings, Written},
};
use crate::object::{Document, Draft};

/// Most writes in one transaction, and the bytes after which no more are taken: bounds the time a reader can be kept
/// out, and what a transaction holds in memory.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 8 << 20;

/// When what nobody needs is deleted: so many rows, or so many bytes.
const GARBAGE_ROWS: usize = 512;
const GARBAGE_BYTES: usize = 8 << 20;

/// Most rows deleted before waiting writes are looked at again.
const SWEEP: usize = 1024;

pub enum Message {
    Write(Write),
    /// The history was cut short.
    Tidy,
    Close(oneshot::Sender<()>),
    /// Access to the connection.
    #[cfg(test)]
    Probe(Box<dyn FnOnce(&rusqlite::Connection) + Send>),
}

pub struct Write {
    pub key: Arc<str>,
    pub expect: Expect,
    pub draft: Option<Draft>,
    pub guards: Vec<Guard>,
    pub reply: oneshot::Sender<Result<Written, WriteError>>,
}

type Verdict = Result<(u64, Document), WriteError>;
type Opened = oneshot::Sender<Result<Arc<Shared>, StoreError>>;

struct Writer {
    shared: Arc<Shared>,
    disk: Option<Disk>,
}

/// Opens the store, says so, and serves until everybody is gone.
pub fn start(place: &Place, settings: Settings, opened: Opened, queue: &mpsc::Receiver<Message>) {
    let (disk, view) = match place {
        Place::Memory => (None, View::new(settings, FIRST)),
        Place::Dir(dir) => match Disk::open(dir, settings) {
            Ok((disk, view)) => (Some(disk), view),
            Err(error) => return drop(opened.send(Err(error))),
        },
    };
    let shared = Arc::new(Shared { view: RwLock::new(view) });
    let mut writer = Writer { shared: shared.clone(), disk };
    if opened.send(Ok(shared)).is_ok() {
        let done = writer.serve(queue);
        writer.end();
        if let Some(done) = done {
            done.send(()).ok();
        }
    }
}

impl Writer {
    /// Until all handles are gone, or somebody wants to close and hear of it.
    fn serve(&mut self, queue: &mpsc::Receiver<Message>) -> Option<oneshot::Sender<()>> {
        while let Ok(first) = queue.recv() {
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Write(write) => next = self.write(write, queue),
                    Message::Tidy => self.tidy(0, 0),
                    Message::Close(done) => return Some(done),
                    #[cfg(test)]
                    Message::Probe(look) => {
                        if let Some(disk) = &self.disk {
                            look(disk.connection());
                        }
                    }
                }
            }
        }
        None
    }

    /// Takes this write and those that wait behind it. Returns the message that is none, if it met one.
    fn write(&mut self, first: Write, queue: &mpsc::Receiver<Message>) -> Option<Message> {
        let mut batch = Batch::default();
        let mut replies = Vec::new();
        let mut other = None;
        self.stage(&mut batch, &mut replies, first);
        while replies.len() < BATCH && batch.bytes < BATCH_BYTES {
            match queue.try_recv() {
                Ok(Message::Write(write)) => self.stage(&mut batch, &mut replies, write),
                Ok(message) => {
                    other = Some(message);
                    break;
                }
                Err(_) => break,
            }
        }
        self.settle(batch, replies);
        self.tidy(GARBAGE_ROWS, GARBAGE_BYTES);
        if let Some(disk) = &mut self.disk {
            disk.checkpoint();
        }
        other
    }

    fn stage(
        &self,
        batch: &mut Batch,
        replies: &mut Vec<(oneshot::Sender<Result<Written, WriteError>>, Verdict)>,
        write: Write,
    ) {
        let Write { key, expect, draft, guards, reply } = write;
        let view = self.shared.view.read();
        let verdict = if batch.meets(&view, &guards) {
            batch.stage(&view, key, expect, draft.as_ref()).map_err(WriteError::Conflict)
        } else {
            Err(WriteError::Unguarded)
        };
        drop(view);
        replies.push((reply, verdict));
    }

    /// Durable, visible, told, acknowledged. If it cannot be durable, nobody in the batch is told anything but that:
    /// even a conflict may be one with a write that never was.
    fn settle(
        &mut self,
        batch: Batch,
        replies: Vec<(oneshot::Sender<Result<Written, WriteError>>, Verdict)>,
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
                (Ok(()), Ok((revision, document))) => Ok(Written { revision, document }),
                (Ok(()), Err(refusal)) => Err(refusal),
            };
            // A caller that gave up waiting does not want to know.
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

    /// Deletes from the disk what nobody needs, once it is worth a transaction.
    fn tidy(&mut self, rows: usize, bytes: usize) {
        let mut view = self.shared.view.write();
        let floor = view.floor();
        let garbage = view.garbage();
        if garbage.revisions.len() < rows && garbage.bytes < bytes {
            return;
        }
        let revisions = garbage.take(SWEEP);
        drop(view);
        let Some(disk) = &mut self.disk else { return };
        if let Err(error) = disk.compact(floor, &revisions) {
            tracing::warn!(error = &error as &dyn std::error::Error, "old revisions stay for now");
            self.shared.view.write().garbage().put_back(revisions);
        }
    }

    /// The disk goes first: whoever hears of the end may open the directory again.
    fn end(&mut self) {
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
