//! The only module of this crate that reads the CPU clock, and the formats of times.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use rustix::time::{ClockId, clock_gettime};

pub use capt_util::clock::now;

/// CPU time that the current thread has used.
pub fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Formats a time as `metav1.Time` does: UTC, whole seconds.
pub fn format_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time as `metav1.MicroTime` does.
pub fn format_micro_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
