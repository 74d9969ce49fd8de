//! Watches: cursors into the shared history.
//!
//! A watch owns no events but the few it is about to deliver. The writer only records, for each watch that an event
//! matches, the revision from which on there is something to fetch; so a quiet watch never expires however much happens
//! elsewhere, and a slow one expires without blocking the writer.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures::{Stream, task::AtomicWaker};

use super::{SharedState, error::Expired, types::StoreEvent};

/// Number of events fetched while holding the lock once.
const FETCH_BATCH: usize = 128;

/// The writer's view of a watch.
#[derive(Debug)]
pub struct WatchCursor {
    prefix: Box<str>,
    /// Revision from which on there may be events to fetch; 0 if there are none. Changes only with the state's lock
    /// held: by the writer with the exclusive lock, by the watch with a shared one.
    pending: AtomicU64,
    waker: AtomicWaker,
}

impl WatchCursor {
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// All watches of a store by the directory of their prefix, so that an event costs one lookup per `/` in its key.
#[derive(Debug, Default)]
pub struct Watchers(HashMap<Box<str>, Vec<Arc<WatchCursor>>>);

impl Watchers {
    fn add(&mut self, slot: Arc<WatchCursor>) {
        self.0.entry(directory(&slot.prefix).into()).or_default().push(slot);
    }

    fn remove(&mut self, slot: &Arc<WatchCursor>) {
        let directory = directory(&slot.prefix);
        if let Some(slots) = self.0.get_mut(directory) {
            slots.retain(|other| !Arc::ptr_eq(other, slot));
            if slots.is_empty() {
                self.0.remove(directory);
            }
        }
    }

    /// Notifies the watches that an event matches. Returns those that were idle.
    pub fn notify(&self, key: &str, revision: u64) -> Vec<Arc<WatchCursor>> {
        let mut woken = Vec::new();
        if self.0.is_empty() {
            return woken;
        }
        let directories = key.match_indices('/').filter_map(|(at, _)| key.get(..=at));
        for slot in std::iter::once("").chain(directories).filter_map(|name| self.0.get(name)).flatten() {
            if slot.pending.load(Ordering::Relaxed) == 0 && key.starts_with(&*slot.prefix) {
                slot.pending.store(revision, Ordering::Relaxed);
                woken.push(slot.clone());
            }
        }
        woken
    }

    pub fn all(&self) -> Vec<Arc<WatchCursor>> {
        self.0.values().flatten().cloned().collect()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// The part of a prefix up to its last `/`.
fn directory(prefix: &str) -> &str {
    prefix.rfind('/').and_then(|at| prefix.get(..=at)).unwrap_or_default()
}

/// A stream of events. Ends after [`Expired`], or when the store closes.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<SharedState>,
    cursor: Arc<WatchCursor>,
    after: u64,
    ready: VecDeque<StoreEvent>,
    ended: bool,
}

enum FetchOutcome {
    Some,
    Nothing,
    Closed,
}

impl Watch {
    pub(super) fn start(shared: &Arc<SharedState>, prefix: &str, after: u64) -> Result<Self, Expired> {
        let mut view = shared.view.write();
        view.check_not_expired(after)?;
        // Starts at the floor if the caller starts before the first revision.
        let after = after.max(view.floor());
        let pending = if after < view.revision() { after + 1 } else { 0 };
        let slot = Arc::new(WatchCursor {
            prefix: prefix.into(),
            pending: AtomicU64::new(pending),
            waker: AtomicWaker::new(),
        });
        view.watchers.add(slot.clone());
        drop(view);
        Ok(Self { shared: shared.clone(), cursor: slot, after, ready: VecDeque::new(), ended: false })
    }

    /// Revision up to which everything was delivered: the value of a bookmark.
    pub fn progress(&self) -> u64 {
        if let Some(next) = self.ready.front() {
            return next.revision.saturating_sub(1);
        }
        let view = self.shared.view.read();
        match self.cursor.pending.load(Ordering::Relaxed) {
            0 => view.revision(),
            pending => pending.saturating_sub(1),
        }
    }

    fn fetch(&mut self) -> Result<FetchOutcome, Expired> {
        let view = self.shared.view.read();
        let pending = self.cursor.pending.load(Ordering::Relaxed);
        if pending == 0 {
            return Ok(if view.closed { FetchOutcome::Closed } else { FetchOutcome::Nothing });
        }
        let from = pending.max(self.after + 1);
        if from <= view.floor() {
            return Err(Expired { oldest: view.floor() });
        }
        let wanted = view.events_from(from).filter(|event| event.key.starts_with(&*self.cursor.prefix));
        self.ready.extend(wanted.take(FETCH_BATCH).cloned());
        let next = match self.ready.back() {
            Some(last) if self.ready.len() == FETCH_BATCH && last.revision < view.revision() => {
                last.revision + 1
            }
            _ => 0,
        };
        self.cursor.pending.store(next, Ordering::Relaxed);
        let nothing = if view.closed { FetchOutcome::Closed } else { FetchOutcome::Nothing };
        Ok(if self.ready.is_empty() { nothing } else { FetchOutcome::Some })
    }
}

impl Stream for Watch {
    type Item = Result<StoreEvent, Expired>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = self.get_mut();
        if watch.ready.is_empty() && !watch.ended {
            // Register before fetching: a notification after the fetch must find the waker.
            watch.cursor.waker.register(context.waker());
            match watch.fetch() {
                Ok(FetchOutcome::Some) => {}
                Ok(FetchOutcome::Nothing) => return Poll::Pending,
                Ok(FetchOutcome::Closed) => watch.ended = true,
                Err(expired) => {
                    watch.ended = true;
                    return Poll::Ready(Some(Err(expired)));
                }
            }
        }
        Poll::Ready(watch.ready.pop_front().map(Ok))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.view.write().watchers.remove(&self.cursor);
    }
}
