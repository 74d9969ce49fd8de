//! The one reader of the wall clock in this crate.

use jiff::{Timestamp, tz::TimeZone};

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// A moment as `metav1.Time` writes it: UTC, whole seconds.
pub fn seconds(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment as `metav1.MicroTime` writes it.
pub fn micros(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
