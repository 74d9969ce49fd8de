//! Fault injection for tests: errors, delays, aborted connections, broken watches, stale reads; and a log of requests.
//!
//! Every resource request is matched against the active faults in the order they were added; the first one that is due
//! triggers. A fault defines *which* requests it matches (a closure), *when* it triggers (the nth match, a number of
//! times, or always) and *what* it does ([`Effect`]).

mod request_log;

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

pub use self::request_log::{RequestLog, RequestRecord};
use crate::{
    request::Verb,
    status_error::{StatusDetails, StatusError},
};

/// A request as fault matchers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCall {
    /// Verb.
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

impl ApiCall {
    /// Whether the verb modifies objects.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }

    /// Whether the call targets this resource: `secrets`, `deployments.apps`, `deployments.apps/status`.
    pub fn targets(&self, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.resource == plural && self.group == group && self.subresource == subresource
    }
}

/// What a triggered fault does.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Responds with this error without handling the request.
    Fail(StatusError),
    /// Delays the request, then handles it.
    Delay(Duration),
    /// Aborts the connection before the request is handled.
    DropBefore,
    /// Handles the request, then aborts the connection instead of responding.
    DropAfter,
    /// Aborts the watch after this many events.
    BreakWatchAfter(usize),
}

type CallMatcher = Box<dyn Fn(&ApiCall) -> bool + Send + Sync>;

/// A matcher, a trigger condition and an effect.
pub struct Fault {
    matches: CallMatcher,
    skip: u64,
    times: Option<u64>,
    effect: Effect,
}

impl Fault {
    /// A fault that triggers on every matching request until it is removed.
    pub fn new(matches: impl Fn(&ApiCall) -> bool + Send + Sync + 'static, effect: Effect) -> Self {
        Self { matches: Box::new(matches), skip: 0, times: None, effect }
    }

    /// Responds with a `Status` of this code.
    pub fn fail(matches: impl Fn(&ApiCall) -> bool + Send + Sync + 'static, code: u16) -> Self {
        Self::new(matches, Effect::Fail(injected_error(code, 0)))
    }

    /// Responds with 429 and `Retry-After`.
    pub fn throttle(
        matches: impl Fn(&ApiCall) -> bool + Send + Sync + 'static,
        retry_after_seconds: u32,
    ) -> Self {
        Self::new(matches, Effect::Fail(injected_error(429, retry_after_seconds)))
    }

    /// Triggers only on the nth match (from 1), once unless [`Fault::times`] is set.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.skip = nth.saturating_sub(1);
        self.times = self.times.or(Some(1));
        self
    }

    /// Triggers this many times.
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

/// The `Status` that kube-apiserver returns with this code when it is unhealthy.
fn injected_error(code: u16, retry_after_seconds: u32) -> StatusError {
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
    let details =
        (retry_after_seconds > 0).then(|| StatusDetails { retry_after_seconds, ..StatusDetails::default() });
    StatusError::new(code, reason, text, details)
}

/// Handle of an active fault: removes it, or returns how often it triggered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

struct ActiveFault {
    id: FaultId,
    fault: Fault,
    matched: u64,
    triggered: u64,
}

type ExpireHook = Box<dyn Fn() + Send + Sync>;
type RevisionFn = Box<dyn Fn() -> u64 + Send + Sync>;

/// The faults of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct FaultInjector(Arc<Inner>);

struct Inner {
    next_id: AtomicU64,
    active: Mutex<Vec<ActiveFault>>,
    watch_token: Mutex<CancellationToken>,
    /// Reads are served from this revision; 0 means the current one.
    frozen_revision: AtomicU64,
    expire_history: ExpireHook,
    revision: RevisionFn,
}

impl fmt::Debug for FaultInjector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Faults").field("active", &self.0.active.lock().len()).finish_non_exhaustive()
    }
}

impl FaultInjector {
    pub(crate) fn new(
        expire: impl Fn() + Send + Sync + 'static,
        revision: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            next_id: AtomicU64::new(1),
            active: Mutex::default(),
            watch_token: Mutex::new(CancellationToken::new()),
            frozen_revision: AtomicU64::new(0),
            expire_history: Box::new(expire),
            revision: Box::new(revision),
        }))
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) -> FaultId {
        let id = FaultId(self.0.next_id.fetch_add(1, Ordering::Relaxed));
        self.0.active.lock().push(ActiveFault { id, fault, matched: 0, triggered: 0 });
        id
    }

    /// Removes a fault and returns how often it triggered.
    pub fn remove(&self, id: FaultId) -> u64 {
        let mut active = self.0.active.lock();
        let acted = active.iter().find(|one| one.id == id).map_or(0, |one| one.triggered);
        active.retain(|one| one.id != id);
        acted
    }

    /// How often a fault has triggered.
    pub fn trigger_count(&self, id: FaultId) -> u64 {
        self.0.active.lock().iter().find(|one| one.id == id).map_or(0, |one| one.triggered)
    }

    /// Removes every fault and ends stale reads.
    pub fn clear(&self) {
        self.0.active.lock().clear();
        self.thaw_reads();
    }

    /// Aborts every open watch. New watches are not affected.
    pub fn break_watches(&self) {
        std::mem::take(&mut *self.0.watch_token.lock()).cancel();
    }

    /// Drops the history: older revisions return 410 from now on.
    pub fn expire_history(&self) {
        (self.0.expire_history)();
    }

    /// Serves gets and lists from the current revision until [`Faults::thaw_reads`]. Watches and writes are not
    /// affected.
    pub fn freeze_reads(&self) {
        self.0.frozen_revision.store((self.0.revision)(), Ordering::Release);
    }

    /// Serves gets and lists from the current state again.
    pub fn thaw_reads(&self) {
        self.0.frozen_revision.store(0, Ordering::Release);
    }

    pub(crate) fn frozen_revision(&self) -> Option<u64> {
        let revision = self.0.frozen_revision.load(Ordering::Acquire);
        (revision > 0).then_some(revision)
    }

    /// Cancelled when open watches must be aborted.
    pub(crate) fn watch_token(&self) -> CancellationToken {
        self.0.watch_token.lock().clone()
    }

    /// The effect of the first fault that triggers for this call.
    pub(crate) fn effect_for(&self, call: &ApiCall) -> Option<Effect> {
        let mut active = self.0.active.lock();
        active.iter_mut().find_map(|one| {
            if !(one.fault.matches)(call) {
                return None;
            }
            one.matched += 1;
            let due =
                one.matched > one.fault.skip && one.fault.times.is_none_or(|times| one.triggered < times);
            due.then(|| {
                one.triggered += 1;
                one.fault.effect.clone()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: Verb, resource: &str) -> ApiCall {
        ApiCall {
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

    fn faults() -> FaultInjector {
        FaultInjector::new(|| {}, || 41)
    }

    #[test]
    fn only_the_nth_match_fails() {
        let faults = faults();
        let id = faults.add(Fault::fail(|call| call.targets("secrets") && call.is_write(), 503).nth(2));
        let outcomes: Vec<bool> =
            (0..4).map(|_| faults.effect_for(&call(Verb::Update, "secrets")).is_some()).collect();
        assert_eq!(outcomes, [false, true, false, false]);
        assert!(faults.effect_for(&call(Verb::Get, "secrets")).is_none());
        assert_eq!(faults.remove(id), 1);
    }

    #[test]
    fn a_count_ends_and_the_next_fault_gets_its_turn() {
        let faults = faults();
        faults.add(Fault::fail(|_| true, 500).times(1));
        faults.add(Fault::throttle(|_| true, 7));
        let codes: Vec<(u16, u32)> = (0..2)
            .filter_map(|_| match faults.effect_for(&call(Verb::List, "pods")) {
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
        let old = faults.watch_token();
        faults.break_watches();
        assert!(old.is_cancelled() && !faults.watch_token().is_cancelled());
    }

    #[test]
    fn frozen_reads_are_of_the_revision_of_that_moment() {
        let faults = faults();
        faults.freeze_reads();
        assert_eq!(faults.frozen_revision(), Some(41));
        faults.thaw_reads();
        assert_eq!(faults.frozen_revision(), None);
    }
}
