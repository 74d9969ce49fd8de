//! The current state and recent history, in memory. Pure: no disk, no clock, no threads.
//!
//! Values are shared between the state, the history and readers, so the history costs only what has been replaced
//! since. `history` has no gaps: it contains the events `floor + 1 ..= revision`.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use super::{
    error::Expired,
    secondary_index::{self, SecondaryIndex},
    types::{
        Entry, HistoryLimits, IndexTerm, ListOptions, Precondition, RevisionGuard, Snapshot, StoreEvent,
    },
    watch::{WatchCursor, Watchers},
};
use crate::object::{Document, Draft, IndexedMeta};

/// Revision of an empty store.
pub const INITIAL_REVISION: u64 = 1;

/// Memory overhead of an event besides its values.
const EVENT_OVERHEAD_BYTES: usize = 256;

#[derive(Debug)]
pub struct StoreState {
    settings: HistoryLimits,
    revision: u64,
    floor: u64,
    present: BTreeMap<Arc<str>, Entry>,
    /// Secondary index of `present`.
    index: SecondaryIndex,
    history: VecDeque<StoreEvent>,
    history_bytes: usize,
    garbage: Garbage,
    pub watchers: Watchers,
    pub closed: bool,
}

/// Revisions that neither the state nor the history needs.
///
/// They are deleted in order, and the process may end after any of them: a delete must come after everything it
/// deleted, or the next start would restore the object.
#[derive(Debug, Default)]
pub struct Garbage {
    pub revisions: Vec<u64>,
    pub bytes: usize,
}

/// Writes that have been evaluated in order and wait to become durable together.
#[derive(Debug, Default)]
pub struct Batch {
    pub events: Vec<StoreEvent>,
    pub bytes: usize,
    latest: HashMap<Arc<str>, usize>,
}

impl StoreState {
    /// The state after compaction up to `floor`; [`View::restore`] and [`View::apply`] fill it.
    pub fn new(settings: HistoryLimits, floor: u64) -> Self {
        let floor = floor.max(INITIAL_REVISION);
        Self {
            settings,
            revision: floor,
            floor,
            present: BTreeMap::new(),
            index: SecondaryIndex::default(),
            history: VecDeque::new(),
            history_bytes: 0,
            garbage: Garbage::default(),
            watchers: Watchers::default(),
            closed: false,
        }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Oldest revision that can be reconstructed.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.present.get(key)
    }

    /// Adds a row from before the history.
    pub fn restore(&mut self, key: &Arc<str>, revision: u64, document: Option<Document>) {
        let deletes = document.is_none();
        let old = self.put(key, document.map(|document| Entry { revision, document }));
        if let Some(old) = old {
            self.garbage.add(old.revision, old.document.bytes().len());
        }
        if deletes {
            self.garbage.add(revision, 0);
        }
    }

    /// Returns the previous entry.
    fn put(&mut self, key: &Arc<str>, now: Option<Entry>) -> Option<Entry> {
        let document = now.as_ref().map(|entry| entry.document.clone());
        let before = match now {
            Some(entry) => self.present.insert(key.clone(), entry),
            None => self.present.remove(key),
        };
        self.index.update(key, before.as_ref().map(|entry| &entry.document), document.as_ref());
        before
    }

    /// Applies the next event. Returns the watches to wake after the lock is released.
    pub fn apply(&mut self, event: StoreEvent) -> Vec<Arc<WatchCursor>> {
        self.revision = event.revision;
        self.put(&event.key, event.current.clone());
        let woken = self.watchers.notify(&event.key, event.revision);
        self.history_bytes += cost(&event);
        self.history.push_back(event);
        woken
    }

    /// Drops history beyond the limits. The result should be freed without the lock.
    pub fn trim(&mut self) -> Vec<StoreEvent> {
        let mut gone = Vec::new();
        while self.history.len() > self.settings.events || self.history_bytes > self.settings.bytes {
            match self.pop() {
                Some(event) => gone.push(event),
                None => break,
            }
        }
        gone
    }

    /// Drops all history.
    pub fn drop_history(&mut self) -> Vec<StoreEvent> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    fn pop(&mut self) -> Option<StoreEvent> {
        let event = self.history.pop_front()?;
        self.floor = event.revision;
        self.history_bytes = self.history_bytes.saturating_sub(cost(&event));
        if let Some(before) = &event.previous {
            self.garbage.add(before.revision, before.document.bytes().len());
        }
        if event.current.is_none() {
            self.garbage.add(event.revision, 0);
        }
        Some(event)
    }

    pub fn garbage(&mut self) -> &mut Garbage {
        &mut self.garbage
    }

    /// Events from revision `from` on, which must be after the floor.
    pub fn events_from(&self, from: u64) -> impl Iterator<Item = &StoreEvent> {
        let skip = usize::try_from(from.saturating_sub(self.floor + 1)).unwrap_or(usize::MAX);
        self.history.range(skip.min(self.history.len())..)
    }

    /// Rejects a revision whose successors are not all available.
    pub fn check_not_expired(&self, revision: u64) -> Result<(), Expired> {
        if revision.max(INITIAL_REVISION) < self.floor { Err(Expired { oldest: self.floor }) } else { Ok(()) }
    }

    pub fn list(&self, prefix: &str, page: &ListOptions) -> Result<Snapshot, Expired> {
        let at = page.revision.unwrap_or(self.revision).min(self.revision);
        self.check_not_expired(at)?;
        let undone = self.changes_since(prefix, at);
        let start = match page.after.as_deref() {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let bounds = (start, Bound::Unbounded);
        let now = self.present.range::<str, _>(bounds).take_while(|(key, _)| key.starts_with(prefix));
        let then = undone.range::<str, _>(bounds).map(|(_, changed)| *changed);
        let mut all = overlay(now, then);
        let limit = page.limit.unwrap_or(usize::MAX);
        let entries: Vec<_> =
            all.by_ref().take(limit).map(|(key, entry)| (key.clone(), entry.clone())).collect();
        let remaining = if page.limit.is_some() { all.count() as u64 } else { 0 };
        Ok(Snapshot { revision: at.max(INITIAL_REVISION), entries, has_more: remaining > 0, remaining })
    }

    /// Current objects that match one of the alternatives and pass the filter.
    pub fn find(
        &self,
        prefix: &str,
        alternatives: &[Vec<IndexTerm<'_>>],
        fits: impl Fn(&IndexedMeta) -> bool,
    ) -> Snapshot {
        let candidates =
            secondary_index::find_indexed(&self.present, &self.index, prefix, alternatives).into_iter();
        let found = candidates.filter(|(_, entry)| fits(entry.document.indexed_meta()));
        let entries = found.map(|(key, entry)| (key.clone(), entry.clone())).collect();
        Snapshot { revision: self.revision.max(INITIAL_REVISION), entries, has_more: false, remaining: 0 }
    }

    #[cfg(test)]
    pub fn is_index_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Keys that have changed since `at`, with their entries at that revision.
    fn changes_since(&self, prefix: &str, at: u64) -> BTreeMap<&str, (&Arc<str>, Option<&Entry>)> {
        let mut undone = BTreeMap::new();
        for event in self.events_from(at + 1).filter(|event| event.key.starts_with(prefix)) {
            undone.entry(&*event.key).or_insert((&event.key, event.previous.as_ref()));
        }
        undone
    }
}

/// The current state overlaid with `then`. Both are in key order.
fn overlay<'a>(
    now: impl Iterator<Item = (&'a Arc<str>, &'a Entry)>,
    then: impl Iterator<Item = (&'a Arc<str>, Option<&'a Entry>)>,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Entry)> {
    let (mut now, mut then) = (now.peekable(), then.peekable());
    std::iter::from_fn(move || {
        loop {
            let present = now.peek().map(|(key, _)| *key);
            let Some(changed) = then.next_if(|(key, _)| present.is_none_or(|present| *key <= present)) else {
                return now.next();
            };
            now.next_if(|(key, _)| *key == changed.0);
            if let (key, Some(entry)) = changed {
                return Some((key, entry));
            }
        }
    })
}

/// Memory that only this event holds: its new value belongs to the state or to the next event.
fn cost(event: &StoreEvent) -> usize {
    let before = event.previous.as_ref().map_or(0, |entry| entry.document.bytes().len());
    let deleted = event.deleted.as_ref().map_or(0, |document| document.bytes().len());
    EVENT_OVERHEAD_BYTES + before + deleted
}

impl Garbage {
    pub fn add(&mut self, revision: u64, bytes: usize) {
        self.revisions.push(revision);
        self.bytes += bytes;
    }

    /// Puts back revisions that could not be deleted, before all newer ones.
    pub fn put_back(&mut self, revisions: Vec<u64>) {
        self.revisions.splice(0..0, revisions);
    }

    /// Takes the oldest revisions. The byte count is reset once all are taken.
    pub fn take(&mut self, most: usize) -> Vec<u64> {
        let taken = self.revisions.drain(..most.min(self.revisions.len())).collect();
        if self.revisions.is_empty() {
            self.bytes = 0;
        }
        taken
    }
}

impl Batch {
    /// Whether all guards hold after the writes before this one.
    pub fn guards_hold(&self, view: &StoreState, guards: &[RevisionGuard]) -> bool {
        guards.iter().all(|guard| {
            let staged = self.latest.get(&guard.key).and_then(|at| self.events.get(*at));
            let entry = staged.map_or_else(|| view.get(&guard.key), |event| event.current.as_ref());
            entry.is_some_and(|entry| entry.revision == guard.revision)
        })
    }

    /// Evaluates a write against the state and the writes before it. `Err` contains the current entry.
    pub fn stage(
        &mut self,
        view: &StoreState,
        key: Arc<str>,
        expect: Precondition,
        draft: Option<&Draft>,
    ) -> Result<(u64, Document), Option<Entry>> {
        let staged = self.latest.get(&key).and_then(|at| self.events.get(*at));
        let (key, before) = match (staged, view.present.get_key_value(&key)) {
            (Some(event), _) => (event.key.clone(), event.current.clone()),
            (None, Some((known, entry))) => (known.clone(), Some(entry.clone())),
            (None, None) => (key, None),
        };
        let met = match (expect, &before) {
            (Precondition::Absent, entry) => entry.is_none(),
            (Precondition::Revision(revision), entry) => {
                entry.as_ref().is_some_and(|entry| entry.revision == revision)
            }
            (Precondition::Any, entry) => draft.is_some() || entry.is_some(),
        };
        if !met {
            return Err(before);
        }
        let revision = view.revision + self.events.len() as u64 + 1;
        let event = build_event(revision, key, draft.map(|draft| draft.with_revision(revision)), before)
            .ok_or(None)?;
        let document = event.document().cloned().ok_or(None)?;
        self.bytes += document.bytes().len();
        self.latest.insert(event.key.clone(), self.events.len());
        self.events.push(event);
        Ok((revision, document))
    }
}

/// Builds the event of a change. Deleting a missing object yields none.
pub fn build_event(
    revision: u64,
    key: Arc<str>,
    document: Option<Document>,
    before: Option<Entry>,
) -> Option<StoreEvent> {
    let deleted = match (&document, &before) {
        (None, None) => return None,
        (None, Some(entry)) => Some(entry.document.with_revision(revision)),
        (Some(_), _) => None,
    };
    let now = document.map(|document| Entry { revision, document });
    Some(StoreEvent { revision, key, current: now, previous: before, deleted })
}
