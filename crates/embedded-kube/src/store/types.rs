//! What goes in and out of a store.

use std::{path::PathBuf, sync::Arc};

use crate::object::Document;

/// Where a store lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nowhere; gone with the last handle.
    Memory,
    /// In files in this directory, which is made if it is missing.
    Dir(PathBuf),
}

/// How much of the past is kept. Whichever bound is met first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Events.
    pub history: usize,
    /// Bytes of values that nothing but the history needs any more.
    pub history_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { history: 10_000, history_bytes: 64 << 20 }
    }
}

/// An object and the revision that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Revision of the write.
    pub revision: u64,
    /// The object.
    pub document: Document,
}

/// What a writer believes to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// What this revision wrote.
    At(u64),
    /// No opinion.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests write without looking"))]
    Any,
}

/// Another object that a write relies on: it must be what this revision wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// Which.
    pub key: Arc<str>,
    /// The revision that was seen.
    pub revision: u64,
}

/// A write that is durable and visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its revision.
    pub revision: u64,
    /// The object with that revision; for a delete, its last state.
    pub document: Document,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreEvent {
    /// Revision of the change.
    pub revision: u64,
    /// Whose.
    pub key: Arc<str>,
    /// What is there now; `None` after a delete.
    pub now: Option<Entry>,
    /// What was there before; `None` for a create.
    pub before: Option<Entry>,
    /// For a delete: the last state, with the delete's revision.
    pub deleted: Option<Document>,
}

impl StoreEvent {
    /// The object at the event's revision: what is there now, or the last state of what was deleted.
    pub fn document(&self) -> Option<&Document> {
        self.now.as_ref().map(|entry| &entry.document).or(self.deleted.as_ref())
    }
}

/// Which part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Only keys greater than this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
    /// As it was at this revision.
    pub at: Option<u64>,
}

/// Something that objects can be found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark<'a> {
    /// A label and its value.
    Label(&'a str, &'a str),
    /// The uid of the owner that manages them.
    Controller(&'a str),
}

/// A list at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// Keys and objects, in the order of keys.
    pub entries: Vec<(Arc<str>, Entry)>,
    /// Whether the limit left some out.
    pub more: bool,
    /// How many it left out.
    pub remaining: u64,
}
