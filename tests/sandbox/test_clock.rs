//! A clock for the controllers that a test can stop and move, so that what depends on the time of day does not depend on how
//! fast this machine is.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// One for each test: controllers take a function, and that has to find it.
pub(crate) struct Clock {
    /// In microseconds, if it stands.
    stopped: AtomicI64,
}

/// It goes like everybody's.
const GOES: i64 = i64::MIN;

impl Clock {
    pub(crate) const fn new() -> Self {
        Self { stopped: AtomicI64::new(GOES) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self.stopped.load(Ordering::SeqCst) {
            GOES => terraform_driver::clock::now(),
            micros => Timestamp::from_microsecond(micros).unwrap(),
        }
    }

    /// It stands at this time from now on.
    pub(crate) fn stop_at(&self, time: Timestamp) {
        self.stopped.store(time.as_microsecond(), Ordering::SeqCst);
    }

    /// It stands from now on, this much later.
    pub(crate) fn stop_after(&self, time: SignedDuration) {
        self.stop_at(self.now().saturating_add(time).unwrap());
    }
}
