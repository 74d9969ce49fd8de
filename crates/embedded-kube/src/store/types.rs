//! Types of the store's interface.

use std::{path::PathBuf, sync::Arc};

use crate::object::Document;

/// Where a store keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// In memory; lost with the last handle.
    Memory,
    /// In files in this directory, which is created if missing.
    Dir(PathBuf),
}

/// Limits of the history. The first limit that is reached applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Events.
    pub events: usize,
    /// Bytes of values that only the history references.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events: 10_000, bytes: 64 << 20 }
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

/// Expected state of the object before a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// It does not exist.
    Absent,
    /// It was last written at this revision.
    Revision(u64),
    /// No precondition.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests write without a precondition"))]
    Any,
}

/// Another object that a write depends on: it must have been last written at this revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionGuard {
    /// Key of the object.
    pub key: Arc<str>,
    /// Expected revision.
    pub revision: u64,
}

/// A durable and visible write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteResult {
    /// Revision of the write.
    pub revision: u64,
    /// The object with that revision; for a delete, its last state.
    pub document: Document,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreEvent {
    /// Revision of the change.
    pub revision: u64,
    /// Key of the object.
    pub key: Arc<str>,
    /// The current object; `None` after a delete.
    pub current: Option<Entry>,
    /// The previous object; `None` for a create.
    pub previous: Option<Entry>,
    /// For a delete: the last state, with the delete's revision.
    pub deleted: Option<Document>,
}

impl StoreEvent {
    /// The object at the event's revision: the current one, or the last state after a delete.
    pub fn document(&self) -> Option<&Document> {
        self.current.as_ref().map(|entry| &entry.document).or(self.deleted.as_ref())
    }
}

/// Options of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Only keys greater than this one.
    pub after: Option<String>,
    /// Maximum number of entries.
    pub limit: Option<usize>,
    /// Lists the state at this revision.
    pub revision: Option<u64>,
}

/// A key of the secondary index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexTerm<'a> {
    /// A label and its value.
    Label(&'a str, &'a str),
    /// Uid of the controlling owner.
    Controller(&'a str),
}

/// A list at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// Keys and objects, in the order of keys.
    pub entries: Vec<(Arc<str>, Entry)>,
    /// Whether the limit was reached.
    pub has_more: bool,
    /// Number of entries beyond the limit.
    pub remaining: u64,
}
