//! Who asked for what, and what came of it. Bodies are never kept: they may hold secrets.
//!
//! Callers choose most of the texts, so each is cut: the log is bounded in bytes, not only in entries.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::request::Verb;

/// Requests that are kept; the oldest go first.
const KEPT: usize = 20_000;
/// Bytes of one text that are kept.
const LONGEST: usize = 256;

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

    fn cut(&mut self) {
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
            text.truncate(text.floor_char_boundary(LONGEST));
            text.shrink_to_fit();
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
#[derive(Debug, Clone)]
pub struct Requests {
    log: Arc<Mutex<VecDeque<Logged>>>,
    on: bool,
}

impl Default for Requests {
    fn default() -> Self {
        Self { log: Arc::default(), on: true }
    }
}

impl Requests {
    /// Keeps nothing.
    pub(crate) fn off() -> Self {
        Self { log: Arc::default(), on: false }
    }

    pub(crate) fn add(&self, mut entry: Logged) {
        if !self.on {
            return;
        }
        entry.cut();
        let mut log = self.log.lock();
        if log.len() >= KEPT {
            log.pop_front();
        }
        log.push_back(entry);
    }

    /// Everything that is kept, oldest first.
    pub fn all(&self) -> Vec<Logged> {
        self.log.lock().iter().cloned().collect()
    }

    /// What the closure picks, oldest first.
    pub fn matching(&self, picks: impl Fn(&Logged) -> bool) -> Vec<Logged> {
        self.log.lock().iter().filter(|entry| picks(entry)).cloned().collect()
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
        self.log.lock().clear();
    }
}
