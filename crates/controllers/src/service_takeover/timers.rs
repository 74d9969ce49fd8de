//! In-process timers: since when no router is ready, and when a Service was last reverted.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Timers of this process. A restart resets them, which delays actions but never causes wrong ones.
#[derive(Debug, Default)]
pub(super) struct TakeoverTimers {
    without_router: Mutex<HashMap<String, Instant>>,
    reverted: Mutex<HashMap<String, Instant>>,
}

impl TakeoverTimers {
    /// How long a namespace has had no ready router.
    pub(super) fn without_router(&self, namespace: &str, has_one: bool) -> Option<Duration> {
        let mut all = self.without_router.lock().unwrap_or_else(PoisonError::into_inner);
        if has_one {
            all.remove(namespace);
            return None;
        }
        Some(all.entry(namespace.to_owned()).or_insert_with(Instant::now).elapsed())
    }

    /// A Service was reverted just now.
    pub(super) fn record_revert(&self, service: &str) {
        let mut all = self.reverted.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(service.to_owned(), Instant::now());
    }

    /// How long ago a Service was reverted.
    pub(super) fn since_revert(&self, service: &str) -> Option<Duration> {
        let all = self.reverted.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(service).map(Instant::elapsed)
    }
}
