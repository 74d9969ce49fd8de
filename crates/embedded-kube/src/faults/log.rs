//! Who asked for what, and what came of it. Bodies are never kept: they may hold secrets.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::request::Verb;

/// Requests that are kept; the oldest go first.
const KEPT: usize = 20_000;

/// One request that was answered (or given up).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// When it came.
    pub at: Timestamp,
    /// How long it took; for a watch, until the first byte.
    pub took: Duration,
    /// User's name.
    pub user: String,
    /// `User-Agent`.
    pub agent: String,
    /// Verb; `None` for paths that are no resources.
    pub verb: Option<Verb>,
    /// API group.
    pub group: String,
    /// Plural, or the path if it is no resource.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name; for a create it is empty unless the path had it.
    pub name: String,
    /// Media type of a patch.
    pub patch_type: String,
    /// `fieldManager`, as given.
    pub field_manager: String,
    /// Nothing was to be kept.
    pub dry_run: bool,
    /// HTTP status; 0 if the client went away or the connection was broken.
    pub code: u16,
}

impl Logged {
    pub(crate) fn empty(at: Timestamp) -> Self {
        Self {
            at,
            took: Duration::ZERO,
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

    /// It was to change something.
    pub fn is_write(&self) -> bool {
        self.verb.is_some_and(|verb| !matches!(verb, Verb::Get | Verb::List | Verb::Watch)) && !self.dry_run
    }

    /// It was answered with 2xx.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The log of one cluster. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<Mutex<VecDeque<Logged>>>);

impl Requests {
    pub(crate) fn add(&self, entry: Logged) {
        let mut log = self.0.lock();
        if log.len() >= KEPT {
            log.pop_front();
        }
        log.push_back(entry);
    }

    /// Everything that is kept, oldest first.
    pub fn all(&self) -> Vec<Logged> {
        self.0.lock().iter().cloned().collect()
    }

    /// What the closure picks, oldest first.
    pub fn matching(&self, picks: impl Fn(&Logged) -> bool) -> Vec<Logged> {
        self.0.lock().iter().filter(|entry| picks(entry)).cloned().collect()
    }

    /// Writes of agents whose name starts like this.
    pub fn writes_by(&self, agent: &str) -> Vec<Logged> {
        self.matching(|entry| entry.is_write() && entry.agent.starts_with(agent))
    }

    /// Writes to one resource (by plural), whoever made them.
    pub fn writes_to(&self, resource: &str) -> Vec<Logged> {
        self.matching(|entry| entry.is_write() && entry.resource == resource)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}
