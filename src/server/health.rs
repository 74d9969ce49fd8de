//! Liveness and readiness. Live: the runtime makes progress. Ready: no pending startup condition.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Heartbeat interval.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A runtime without a heartbeat for this long is considered dead.
const MAX_HEARTBEAT_AGE: Duration = Duration::from_mins(1);

/// Shared health of the process. Cheap to clone; clones share state.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pending: Mutex<BTreeSet<String>>,
    last_heartbeat: Mutex<Instant>,
    max_heartbeat_age: Duration,
}

/// State of the heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// Recent.
    Fresh,
    /// Older than the limit; its age.
    Stale(Duration),
}

impl Default for Health {
    fn default() -> Self {
        Self::with_max_heartbeat_age(MAX_HEARTBEAT_AGE)
    }
}

impl Health {
    /// Live, and ready until a pending condition is added.
    pub fn new() -> Self {
        Self::default()
    }

    /// With another heartbeat limit.
    pub fn with_max_heartbeat_age(longest_pause: Duration) -> Self {
        let (waiting, last_beat) = (Mutex::default(), Mutex::new(Instant::now()));
        Self(Arc::new(Inner {
            pending: waiting,
            last_heartbeat: last_beat,
            max_heartbeat_age: longest_pause,
        }))
    }

    /// Adds a pending startup condition, such as `CRDs`. Idempotent.
    pub fn add_pending(&self, name: impl Into<String>) {
        lock(&self.0.pending).insert(name.into());
    }

    /// Marks a startup condition as met.
    pub fn mark_ready(&self, name: &str) {
        lock(&self.0.pending).remove(name);
    }

    /// The pending conditions, sorted.
    pub fn pending(&self) -> Vec<String> {
        lock(&self.0.pending).iter().cloned().collect()
    }

    /// Whether no condition is pending.
    pub fn is_ready(&self) -> bool {
        lock(&self.0.pending).is_empty()
    }

    /// Records a heartbeat.
    pub fn record_heartbeat(&self) {
        *lock(&self.0.last_heartbeat) = Instant::now();
    }

    /// The state of the heartbeat.
    pub fn heartbeat(&self) -> Heartbeat {
        let age = lock(&self.0.last_heartbeat).elapsed();
        if age <= self.0.max_heartbeat_age { Heartbeat::Fresh } else { Heartbeat::Stale(age) }
    }

    /// Records heartbeats for ever.
    pub(super) async fn run_heartbeat(&self) {
        let mut rhythm = tokio::time::interval(
            HEARTBEAT_INTERVAL.min(self.0.max_heartbeat_age / 4).max(Duration::from_millis(1)),
        );
        loop {
            rhythm.tick().await;
            self.record_heartbeat();
        }
    }
}

/// A poisoned lock is safe to use: every update of the data is atomic.
fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
