//! Live and ready, as two truths. Live: the runtime turns. Ready: nothing is waited for any more.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How often the heart beats.
const RHYTHM: Duration = Duration::from_secs(1);
/// A runtime that has not turned for so long will not come back by itself.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The handle of those who know whether the process is well. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waiting: Mutex<BTreeSet<String>>,
    last_beat: Mutex<Instant>,
    longest_pause: Duration,
}

/// Whether the runtime turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// It does.
    Fresh,
    /// It has not for so long.
    Stale(Duration),
}

impl Default for Health {
    fn default() -> Self {
        Self::with_longest_pause(LONGEST_PAUSE)
    }
}

impl Health {
    /// Alive, and ready unless somebody says what is waited for.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, dead after another time without a heartbeat.
    pub fn with_longest_pause(longest_pause: Duration) -> Self {
        let (waiting, last_beat) = (Mutex::default(), Mutex::new(Instant::now()));
        Self(Arc::new(Inner { waiting, last_beat, longest_pause }))
    }

    /// The process is not ready before this is: `CRDs`, `cache of CAPTCluster`. Saying it twice is saying it once.
    pub fn waiting_for(&self, name: impl Into<String>) {
        held(&self.0.waiting).insert(name.into());
    }

    /// This is not waited for any more.
    pub fn ready(&self, name: &str) {
        held(&self.0.waiting).remove(name);
    }

    /// What is still waited for, in order.
    pub fn waiting(&self) -> Vec<String> {
        held(&self.0.waiting).iter().cloned().collect()
    }

    /// Whether nothing is waited for.
    pub fn is_ready(&self) -> bool {
        held(&self.0.waiting).is_empty()
    }

    /// The runtime turned.
    pub fn beat(&self) {
        *held(&self.0.last_beat) = Instant::now();
    }

    /// Whether the runtime turned lately.
    pub fn pulse(&self) -> Beat {
        let age = held(&self.0.last_beat).elapsed();
        if age <= self.0.longest_pause { Beat::Fresh } else { Beat::Stale(age) }
    }

    /// Beats for ever, as long as the runtime turns it.
    pub(super) async fn keep_beating(&self) {
        let mut rhythm =
            tokio::time::interval(RHYTHM.min(self.0.longest_pause / 4).max(Duration::from_millis(1)));
        loop {
            rhythm.tick().await;
            self.beat();
        }
    }
}

/// Whoever panicked with the lock left a set of names or a time; both are whole.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
