//! The only reader of the wall clock in this crate.

use jiff::Timestamp;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
