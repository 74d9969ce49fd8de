//! Trouble on request, for tests: failures, delays, broken connections, lost watches, old reads; and a log of requests.
//!
//! Faults are matched against every request for a resource, in the order they were added; the first whose turn it is
//! acts. A fault says *which* requests it looks at (a closure), *when* it acts (the nth match, a number of times, or
//! always) and *what* it does ([`Effect`]).

mod log;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::log::{Logged, Requests};
use crate::{
    failure::{Details, Failure},
    request::Verb,
};

/// A request as a fault sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is asked for.
    pub verb: Verb,
    /// API group; empty for core.
    pub group: String,
    /// Plural.
    pub resource: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for all and for cluster-scoped resources.
    pub namespace: String,
    /// Name; empty for collections.
    pub name: String,
    /// User's name.
    pub user: String,
    /// `User-Agent`.
    pub agent: String,
}

impl Call {
    /// It changes something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }

    /// It is about this resource: `secrets`, `deployments.apps`, `deployments.apps/status`.
    pub fn is_on(&self, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.resource == plural && self.group == group && self.subresource == subresource
    }
}

/// What a fault does.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Answers with this instead of doing anything.
    Fail(Failure),
    /// Waits, then goes on as if nothing were.
    Delay(Duration),
    /// Breaks the connection before anything is done.
    DropBefore,
    /// Does what was asked, then breaks the connection instead of answering.
    DropAfter,
    /// Breaks the watch after this many events.
    BreakWatchAfter(usize),
}

type Matches = Box<dyn Fn(&Call) -> bool + Send + Sync>;

/// Which requests, when, and what.
pub struct Fault {
    matches: Matches,
    skip: u64,
    times: Option<u64>,
    effect: Effect,
}

impl Fault {
    /// Every request that the closure picks meets this effect, until the fault is removed.
    pub fn new(matches: impl Fn(&Call) -> bool + Send + Sync + 'static, effect: Effect) -> Self {
        Self { matches: Box::new(matches), skip: 0, times: None, effect }
    }

    /// Answers with a `Status` of this code.
    pub fn fail(matches: impl Fn(&Call) -> bool + Send + Sync + 'static, code: u16) -> Self {
        Self::new(matches, Effect::Fail(failure(code, 0)))
    }

    /// Answers 429 and says when to come again.
    pub fn throttle(
        matches: impl Fn(&Call) -> bool + Send + Sync + 'static,
        retry_after_seconds: u32,
    ) -> Self {
        Self::new(matches, Effect::Fail(failure(429, retry_after_seconds)))
    }

    /// Only the nth match (from 1), and none after it unless [`Fault::times`] says so.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.skip = nth.saturating_sub(1);
        self.times = self.times.or(Some(1));
        self
    }

    /// This many times, then never again.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fault")
            .field("skip", &self.skip)
            .field("times", &self.times)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

/// What the real server says with this code when it is in trouble itself.
fn failure(code: u16, retry_after_seconds: u32) -> Failure {
    let (reason, text) = match code {
        409 => ("Conflict", "the server reported a conflict"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        500 => ("InternalError", "Internal error occurred: injected fault"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        _ => ("", "injected fault"),
    };
    let details = (retry_after_seconds > 0).then(|| Details { retry_after_seconds, ..Details::default() });
    Failure::new(code, reason, text, details)
}

/// A fault that was added; to remove it, or to see how often it acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

struct Active {
    id: FaultId,
    fault: Fault,
    matched: u64,
    acted: u64,
}

type Hook = Box<dyn Fn() + Send + Sync>;
type Revision = Box<dyn Fn() -> u64 + Send + Sync>;

/// The faults of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

struct Inner {
    next: AtomicU64,
    active: Mutex<Vec<Active>>,
    watches: Mutex<CancellationToken>,
    /// Reads are answered as of this revision; 0 means now.
    stale: AtomicU64,
    expire: Hook,
    revision: Revision,
}

impl fmt::Debug for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Faults").field("active", &self.0.active.lock().len()).finish_non_exhaustive()
    }
}

impl Faults {
    pub(crate) fn new(
        expire: impl Fn() + Send + Sync + 'static,
        revision: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            next: AtomicU64::new(1),
            active: Mutex::default(),
            watches: Mutex::new(CancellationToken::new()),
            stale: AtomicU64::new(0),
            expire: Box::new(expire),
            revision: Box::new(revision),
        }))
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) -> FaultId {
        let id = FaultId(self.0.next.fetch_add(1, Ordering::Relaxed));
        self.0.active.lock().push(Active { id, fault, matched: 0, acted: 0 });
        id
    }

    /// Removes a fault; says how often it acted.
    pub fn remove(&self, id: FaultId) -> u64 {
        let mut active = self.0.active.lock();
        let acted = active.iter().find(|one| one.id == id).map_or(0, |one| one.acted);
        active.retain(|one| one.id != id);
        acted
    }

    /// How often a fault has acted.
    pub fn acted(&self, id: FaultId) -> u64 {
        self.0.active.lock().iter().find(|one| one.id == id).map_or(0, |one| one.acted)
    }

    /// Removes every fault and lets reads be current again.
    pub fn clear(&self) {
        self.0.active.lock().clear();
        self.thaw_reads();
    }

    /// Breaks every watch there is now, without a proper end. New ones may come.
    pub fn break_watches(&self) {
        std::mem::take(&mut *self.0.watches.lock()).cancel();
    }

    /// Forgets the history: older revisions give 410 from now on.
    pub fn expire_history(&self) {
        (self.0.expire)();
    }

    /// Gets and lists answer as of now until [`Faults::thaw_reads`], whatever is written. Watches and writes go on.
    pub fn freeze_reads(&self) {
        self.0.stale.store((self.0.revision)(), Ordering::Release);
    }

    /// Gets and lists answer with what is there.
    pub fn thaw_reads(&self) {
        self.0.stale.store(0, Ordering::Release);
    }

    pub(crate) fn stale(&self) -> Option<u64> {
        let revision = self.0.stale.load(Ordering::Acquire);
        (revision > 0).then_some(revision)
    }

    /// Done when watches are to break.
    pub(crate) fn watches(&self) -> CancellationToken {
        self.0.watches.lock().clone()
    }

    /// What happens to this request.
    pub(crate) fn meet(&self, call: &Call) -> Option<Effect> {
        let mut active = self.0.active.lock();
        active.iter_mut().find_map(|one| {
            if !(one.fault.matches)(call) {
                return None;
            }
            one.matched += 1;
            let due = one.matched > one.fault.skip && one.fault.times.is_none_or(|times| one.acted < times);
            due.then(|| {
                one.acted += 1;
                one.fault.effect.clone()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: Verb, resource: &str) -> Call {
        Call {
            verb,
            group: String::new(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: "shop".to_owned(),
            name: "cart".to_owned(),
            user: "ann".to_owned(),
            agent: "test".to_owned(),
        }
    }

    fn faults() -> Faults {
        Faults::new(|| {}, || 41)
    }

    #[test]
    fn only_the_nth_match_fails() {
        let faults = faults();
        let id = faults.add(Fault::fail(|call| call.is_on("secrets") && call.is_write(), 503).nth(2));
        let outcomes: Vec<bool> =
            (0..4).map(|_| faults.meet(&call(Verb::Update, "secrets")).is_some()).collect();
        assert_eq!(outcomes, [false, true, false, false]);
        assert!(faults.meet(&call(Verb::Get, "secrets")).is_none());
        assert_eq!(faults.remove(id), 1);
    }

    #[test]
    fn a_count_ends_and_the_next_fault_gets_its_turn() {
        let faults = faults();
        faults.add(Fault::fail(|_| true, 500).times(1));
        faults.add(Fault::throttle(|_| true, 7));
        let codes: Vec<(u16, u32)> = (0..2)
            .filter_map(|_| match faults.meet(&call(Verb::List, "pods")) {
                Some(Effect::Fail(failure)) => {
                    Some((failure.code(), failure.details().map_or(0, |details| details.retry_after_seconds)))
                }
                _ => None,
            })
            .collect();
        assert_eq!(codes, [(500, 0), (429, 7)]);
    }

    #[test]
    fn breaking_watches_leaves_new_ones_alone() {
        let faults = faults();
        let old = faults.watches();
        faults.break_watches();
        assert!(old.is_cancelled() && !faults.watches().is_cancelled());
    }

    #[test]
    fn frozen_reads_are_of_the_revision_of_that_moment() {
        let faults = faults();
        faults.freeze_reads();
        assert_eq!(faults.stale(), Some(41));
        faults.thaw_reads();
        assert_eq!(faults.stale(), None);
    }
}
