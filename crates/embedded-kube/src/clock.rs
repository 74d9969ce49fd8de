//! The one reader of the wall clock in this crate, and of what the processor did.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use rustix::time::{ClockId, clock_gettime};

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// How long the processor has worked for this thread.
pub fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// A moment as `metav1.Time` writes it: UTC, whole seconds.
pub fn seconds(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment as `metav1.MicroTime` writes it.
pub fn micros(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
