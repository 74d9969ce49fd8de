//! What this process knows of a workspace beyond a single run.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use super::host::Follower;

/// What was restored and kept.
#[derive(Default)]
pub(crate) struct Seen {
    restored: AtomicBool,
    kept: Mutex<Option<u64>>,
    follower: Mutex<Option<Follower>>,
}

impl Seen {
    pub(super) fn is_restored(&self) -> bool {
        self.restored.load(Ordering::Acquire)
    }

    pub(super) fn set_restored(&self) {
        self.restored.store(true, Ordering::Release);
    }

    /// The serial that was kept last.
    pub(super) fn kept(&self) -> Option<u64> {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_kept(&self, serial: Option<u64>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = serial;
    }

    /// An earlier follower ends when another one takes its place.
    pub(super) fn set_follower(&self, follower: Follower) {
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
    }

    pub(super) fn end_follower(&self) {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
