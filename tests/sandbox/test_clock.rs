//! A clock for the controllers that a test can stop and move, so that results do not depend on the speed of the machine.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// One static per test, because controllers take a function pointer.
pub(crate) struct TestClock {
    /// In microseconds, if stopped.
    stopped_at: AtomicI64,
}

/// Marker: the clock runs.
const RUNNING: i64 = i64::MIN;

impl TestClock {
    pub(crate) const fn new() -> Self {
        Self { stopped_at: AtomicI64::new(RUNNING) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self.stopped_at.load(Ordering::SeqCst) {
            RUNNING => terraform_driver::clock::now(),
            micros => Timestamp::from_microsecond(micros).unwrap(),
        }
    }

    /// Stops the clock at this time.
    pub(crate) fn stop_at(&self, time: Timestamp) {
        self.stopped_at.store(time.as_microsecond(), Ordering::SeqCst);
    }

    /// Moves the clock forward and stops it.
    pub(crate) fn stop_after(&self, time: SignedDuration) {
        self.stop_at(self.now().saturating_add(time).unwrap());
    }
}
