//! Log of requests: caller, target and result. Bodies are never logged: they may contain secrets.
//!
//! Callers choose most of the strings, so each is truncated: the log is bounded in bytes, not only in entries.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::request::Verb;

/// Maximum number of entries; the oldest are dropped first.
const MAX_ENTRIES: usize = 20_000;
/// Maximum length of a string in bytes.
const MAX_TEXT_BYTES: usize = 256;

/// A handled (or aborted) request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Start time.
    pub at: Timestamp,
    /// Duration; for a watch, until the first byte.
    pub duration: Duration,
    /// User's name.
    pub user: String,
    /// `User-Agent`.
    pub agent: String,
    /// Verb; `None` for non-resource paths.
    pub verb: Option<Verb>,
    /// API group.
    pub group: String,
    /// Plural, or the path of a non-resource request.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name; empty for a create unless the path contains it.
    pub name: String,
    /// Media type of the patch.
    pub patch_type: String,
    /// `fieldManager`, as given.
    pub field_manager: String,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// HTTP status; 0 if the client disconnected or the connection was aborted.
    pub code: u16,
}

impl RequestRecord {
    pub(crate) fn empty(at: Timestamp) -> Self {
        Self {
            at,
            duration: Duration::ZERO,
            user: String::new(),
            agent: String::new(),
            verb: None,
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            patch_type: String::new(),
            field_manager: String::new(),
            dry_run: false,
            code: 0,
        }
    }

    fn truncate(&mut self) {
        let texts = [
            &mut self.user,
            &mut self.agent,
            &mut self.group,
            &mut self.resource,
            &mut self.subresource,
            &mut self.namespace,
            &mut self.name,
            &mut self.patch_type,
            &mut self.field_manager,
        ];
        for text in texts {
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            text.shrink_to_fit();
        }
    }

    /// Whether the verb modifies objects.
    pub fn is_write(&self) -> bool {
        self.verb.is_some_and(|verb| !matches!(verb, Verb::Get | Verb::List | Verb::Watch)) && !self.dry_run
    }

    /// Whether the status is 2xx.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The request log of a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestLog {
    entries: Arc<Mutex<VecDeque<RequestRecord>>>,
    enabled: bool,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self { entries: Arc::default(), enabled: true }
    }
}

impl RequestLog {
    /// A disabled log.
    pub(crate) fn disabled() -> Self {
        Self { entries: Arc::default(), enabled: false }
    }

    pub(crate) fn add(&self, mut entry: RequestRecord) {
        if !self.enabled {
            return;
        }
        entry.truncate();
        let mut log = self.entries.lock();
        if log.len() >= MAX_ENTRIES {
            log.pop_front();
        }
        log.push_back(entry);
    }

    /// All entries, oldest first.
    pub fn all(&self) -> Vec<RequestRecord> {
        self.entries.lock().iter().cloned().collect()
    }

    /// Entries that match the closure, oldest first.
    pub fn matching(&self, picks: impl Fn(&RequestRecord) -> bool) -> Vec<RequestRecord> {
        self.entries.lock().iter().filter(|entry| picks(entry)).cloned().collect()
    }

    /// Writes by clients whose `User-Agent` starts with `agent`.
    pub fn writes_by(&self, agent: &str) -> Vec<RequestRecord> {
        self.matching(|entry| entry.is_write() && entry.agent.starts_with(agent))
    }

    /// Writes to a resource (by plural), by any client.
    pub fn writes_to(&self, resource: &str) -> Vec<RequestRecord> {
        self.matching(|entry| entry.is_write() && entry.resource == resource)
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}
