//! The present state and the recent past, in memory. Pure: no disk, no clock, no threads.
//!
//! Values are shared between the state, the history and whoever reads them, so the history costs only what has been
//! replaced since. `history` has no gaps: it holds the events `floor + 1 ..= revision`.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use super::{
    error::Expired,
    marked::{self, Marked},
    watch::{Slot, Watchers},
    words::{Entry, Expect, Guard, Mark, Page, Settings, Snapshot, StoreEvent},
};
use crate::object::{Document, Draft, Marks};

/// Revision of an empty store.
pub const FIRST: u64 = 1;

/// What an event costs besides its values.
const EVENT_BYTES: usize = 256;

#[derive(Debug)]
pub struct View {
    settings: Settings,
    revision: u64,
    floor: u64,
    present: BTreeMap<Arc<str>, Entry>,
    /// What is found in `present` by its marks.
    marked: Marked,
    history: VecDeque<StoreEvent>,
    history_bytes: usize,
    garbage: Garbage,
    pub watchers: Watchers,
    pub closed: bool,
}

/// Revisions that neither the state nor the history needs any more.
///
/// They go in the order they are in, and a process may end after any of them: so a delete comes after all that it
/// deleted, or the next start would find the object and not its end.
#[derive(Debug, Default)]
pub struct Garbage {
    pub revisions: Vec<u64>,
    pub bytes: usize,
}

/// Writes that were judged in order and wait to become durable together.
#[derive(Debug, Default)]
pub struct Batch {
    pub events: Vec<StoreEvent>,
    pub bytes: usize,
    latest: HashMap<Arc<str>, usize>,
}

impl View {
    /// As it was when everything up to `floor` was forgotten; [`View::restore`] and [`View::apply`] fill it.
    pub fn new(settings: Settings, floor: u64) -> Self {
        let floor = floor.max(FIRST);
        Self {
            settings,
            revision: floor,
            floor,
            present: BTreeMap::new(),
            marked: Marked::default(),
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

    /// Oldest revision that can be told exactly.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.present.get(key)
    }

    /// A row from before the history.
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

    /// Returns what was there.
    fn put(&mut self, key: &Arc<str>, now: Option<Entry>) -> Option<Entry> {
        let document = now.as_ref().map(|entry| entry.document.clone());
        let before = match now {
            Some(entry) => self.present.insert(key.clone(), entry),
            None => self.present.remove(key),
        };
        self.marked.change(key, before.as_ref().map(|entry| &entry.document), document.as_ref());
        before
    }

    /// The next event. Returns the watches to wake, once the lock is gone.
    pub fn apply(&mut self, event: StoreEvent) -> Vec<Arc<Slot>> {
        self.revision = event.revision;
        self.put(&event.key, event.now.clone());
        let woken = self.watchers.mark(&event.key, event.revision);
        self.history_bytes += cost(&event);
        self.history.push_back(event);
        woken
    }

    /// Drops what is beyond the bounds. What is returned is best freed without the lock.
    pub fn trim(&mut self) -> Vec<StoreEvent> {
        let mut gone = Vec::new();
        while self.history.len() > self.settings.history || self.history_bytes > self.settings.history_bytes {
            match self.pop() {
                Some(event) => gone.push(event),
                None => break,
            }
        }
        gone
    }

    /// Drops all history.
    pub fn forget(&mut self) -> Vec<StoreEvent> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    fn pop(&mut self) -> Option<StoreEvent> {
        let event = self.history.pop_front()?;
        self.floor = event.revision;
        self.history_bytes = self.history_bytes.saturating_sub(cost(&event));
        if let Some(before) = &event.before {
            self.garbage.add(before.revision, before.document.bytes().len());
        }
        if event.now.is_none() {
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

    /// Refuses a revision whose successors are not all known.
    pub fn check(&self, revision: u64) -> Result<(), Expired> {
        if revision.max(FIRST) < self.floor { Err(Expired { oldest: self.floor }) } else { Ok(()) }
    }

    pub fn list(&self, prefix: &str, page: &Page) -> Result<Snapshot, Expired> {
        let at = page.at.unwrap_or(self.revision).min(self.revision);
        self.check(at)?;
        let undone = self.undone(prefix, at);
        let start = match page.after.as_deref() {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let bounds = (start, Bound::Unbounded);
        let now = self.present.range::<str, _>(bounds).take_while(|(key, _)| key.starts_with(prefix));
        let then = undone.range::<str, _>(bounds).map(|(_, changed)| *changed);
        let mut all = overlaid(now, then);
        let limit = page.limit.unwrap_or(usize::MAX);
        let entries: Vec<_> =
            all.by_ref().take(limit).map(|(key, entry)| (key.clone(), entry.clone())).collect();
        let remaining = if page.limit.is_some() { all.count() as u64 } else { 0 };
        Ok(Snapshot { revision: at.max(FIRST), entries, more: remaining > 0, remaining })
    }

    /// What is there now with all marks of one of the alternatives, and fits.
    pub fn find(
        &self,
        prefix: &str,
        alternatives: &[Vec<Mark<'_>>],
        fits: impl Fn(&Marks) -> bool,
    ) -> Snapshot {
        let candidates = marked::find(&self.present, &self.marked, prefix, alternatives).into_iter();
        let found = candidates.filter(|(_, entry)| fits(entry.document.marks()));
        let entries = found.map(|(key, entry)| (key.clone(), entry.clone())).collect();
        Snapshot { revision: self.revision.max(FIRST), entries, more: false, remaining: 0 }
    }

    #[cfg(test)]
    pub fn is_unmarked(&self) -> bool {
        self.marked.is_empty()
    }

    /// What was different at `at`: each key that has changed since, with what it was.
    fn undone(&self, prefix: &str, at: u64) -> BTreeMap<&str, (&Arc<str>, Option<&Entry>)> {
        let mut undone = BTreeMap::new();
        for event in self.events_from(at + 1).filter(|event| event.key.starts_with(prefix)) {
            undone.entry(&*event.key).or_insert((&event.key, event.before.as_ref()));
        }
        undone
    }
}

/// The present, where `then` does not say otherwise. Both in the order of keys.
fn overlaid<'a>(
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

/// Memory that this event alone holds: what is `now` belongs to the state, or is the next event's `before`.
fn cost(event: &StoreEvent) -> usize {
    let before = event.before.as_ref().map_or(0, |entry| entry.document.bytes().len());
    let deleted = event.deleted.as_ref().map_or(0, |document| document.bytes().len());
    EVENT_BYTES + before + deleted
}

impl Garbage {
    pub fn add(&mut self, revision: u64, bytes: usize) {
        self.revisions.push(revision);
        self.bytes += bytes;
    }

    /// Takes back what could not be deleted after all, before everything that is newer.
    pub fn put_back(&mut self, revisions: Vec<u64>) {
        self.revisions.splice(0..0, revisions);
    }

    /// The oldest of it. The bytes count until all of it is gone.
    pub fn take(&mut self, most: usize) -> Vec<u64> {
        let taken = self.revisions.drain(..most.min(self.revisions.len())).collect();
        if self.revisions.is_empty() {
            self.bytes = 0;
        }
        taken
    }
}

impl Batch {
    /// Whether everything a write relies on is as it was, after the writes before it.
    pub fn meets(&self, view: &View, guards: &[Guard]) -> bool {
        guards.iter().all(|guard| {
            let staged = self.latest.get(&guard.key).and_then(|at| self.events.get(*at));
            let entry = staged.map_or_else(|| view.get(&guard.key), |event| event.now.as_ref());
            entry.is_some_and(|entry| entry.revision == guard.revision)
        })
    }

    /// Judges one write against the state and the writes before it. `Err` holds what is there instead.
    pub fn stage(
        &mut self,
        view: &View,
        key: Arc<str>,
        expect: Expect,
        draft: Option<&Draft>,
    ) -> Result<(u64, Document), Option<Entry>> {
        let staged = self.latest.get(&key).and_then(|at| self.events.get(*at));
        let (key, before) = match (staged, view.present.get_key_value(&key)) {
            (Some(event), _) => (event.key.clone(), event.now.clone()),
            (None, Some((known, entry))) => (known.clone(), Some(entry.clone())),
            (None, None) => (key, None),
        };
        let met = match (expect, &before) {
            (Expect::Absent, entry) => entry.is_none(),
            (Expect::At(revision), entry) => entry.as_ref().is_some_and(|entry| entry.revision == revision),
            (Expect::Any, entry) => draft.is_some() || entry.is_some(),
        };
        if !met {
            return Err(before);
        }
        let revision = view.revision + self.events.len() as u64 + 1;
        let event = event(revision, key, draft.map(|draft| draft.at(revision)), before).ok_or(None)?;
        let document = event.document().cloned().ok_or(None)?;
        self.bytes += document.bytes().len();
        self.latest.insert(event.key.clone(), self.events.len());
        self.events.push(event);
        Ok((revision, document))
    }
}

/// The event that a change makes of what was before. A delete of nothing is none.
pub fn event(
    revision: u64,
    key: Arc<str>,
    document: Option<Document>,
    before: Option<Entry>,
) -> Option<StoreEvent> {
    let deleted = match (&document, &before) {
        (None, None) => return None,
        (None, Some(entry)) => Some(entry.document.restamped(revision)),
        (Some(_), _) => None,
    };
    let now = document.map(|document| Entry { revision, document });
    Some(StoreEvent { revision, key, now, before, deleted })
}
