//! Watches: cursors into the shared history.
//!
//! A watch owns no events but the handful it is about to give out. The writer only marks, for each watch that an event
//! concerns, from which revision on there is something to fetch; so a quiet watch never grows old however much happens
//! elsewhere, and a slow one is left behind by the history without anybody waiting for it.

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

use super::{Shared, error::Expired, words::StoreEvent};

/// How many events are fetched with one hold of the lock.
const FETCH: usize = 128;

/// What the writer knows of a watch.
#[derive(Debug)]
pub struct Slot {
    prefix: Box<str>,
    /// From here on there may be events to fetch; 0 if there are none. Changes only with the view's lock held: by the
    /// writer with the exclusive one, by the watch with a shared one.
    pending: AtomicU64,
    waker: AtomicWaker,
}

impl Slot {
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// All watches of a store, by the directory of their prefix, so that an event costs one look per `/` in its key.
#[derive(Debug, Default)]
pub struct Watchers(HashMap<Box<str>, Vec<Arc<Slot>>>);

impl Watchers {
    fn add(&mut self, slot: Arc<Slot>) {
        self.0.entry(directory(&slot.prefix).into()).or_default().push(slot);
    }

    fn remove(&mut self, slot: &Arc<Slot>) {
        let directory = directory(&slot.prefix);
        if let Some(slots) = self.0.get_mut(directory) {
            slots.retain(|other| !Arc::ptr_eq(other, slot));
            if slots.is_empty() {
                self.0.remove(directory);
            }
        }
    }

    /// Marks the watches that an event concerns. Returns those that slept.
    pub fn mark(&self, key: &str, revision: u64) -> Vec<Arc<Slot>> {
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

    pub fn all(&self) -> Vec<Arc<Slot>> {
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

/// Events as they happen. Ends after [`Expired`], or when the store closes.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    after: u64,
    ready: VecDeque<StoreEvent>,
    ended: bool,
}

enum Fetched {
    Some,
    Nothing,
    Closed,
}

impl Watch {
    pub(super) fn begin(shared: &Arc<Shared>, prefix: &str, after: u64) -> Result<Self, Expired> {
        let mut view = shared.view.write();
        view.check(after)?;
        // From the floor on if the caller begins before the first revision.
        let after = after.max(view.floor());
        let pending = if after < view.revision() { after + 1 } else { 0 };
        let slot = Arc::new(Slot {
            prefix: prefix.into(),
            pending: AtomicU64::new(pending),
            waker: AtomicWaker::new(),
        });
        view.watchers.add(slot.clone());
        drop(view);
        Ok(Self { shared: shared.clone(), slot, after, ready: VecDeque::new(), ended: false })
    }

    /// Revision up to which everything was given out: what a bookmark may say.
    pub fn progress(&self) -> u64 {
        if let Some(next) = self.ready.front() {
            return next.revision.saturating_sub(1);
        }
        let view = self.shared.view.read();
        match self.slot.pending.load(Ordering::Relaxed) {
            0 => view.revision(),
            pending => pending.saturating_sub(1),
        }
    }

    fn fetch(&mut self) -> Result<Fetched, Expired> {
        let view = self.shared.view.read();
        let pending = self.slot.pending.load(Ordering::Relaxed);
        if pending == 0 {
            return Ok(if view.closed { Fetched::Closed } else { Fetched::Nothing });
        }
        let from = pending.max(self.after + 1);
        if from <= view.floor() {
            return Err(Expired { oldest: view.floor() });
        }
        let wanted = view.events_from(from).filter(|event| event.key.starts_with(&*self.slot.prefix));
        self.ready.extend(wanted.take(FETCH).cloned());
        let next = match self.ready.back() {
            Some(last) if self.ready.len() == FETCH && last.revision < view.revision() => last.revision + 1,
            _ => 0,
        };
        self.slot.pending.store(next, Ordering::Relaxed);
        let nothing = if view.closed { Fetched::Closed } else { Fetched::Nothing };
        Ok(if self.ready.is_empty() { nothing } else { Fetched::Some })
    }
}

impl Stream for Watch {
    type Item = Result<StoreEvent, Expired>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = self.get_mut();
        if watch.ready.is_empty() && !watch.ended {
            // Before the look: a mark that comes after the look must find whom to wake.
            watch.slot.waker.register(context.waker());
            match watch.fetch() {
                Ok(Fetched::Some) => {}
                Ok(Fetched::Nothing) => return Poll::Pending,
                Ok(Fetched::Closed) => watch.ended = true,
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
        self.shared.view.write().watchers.remove(&self.slot);
    }
}
