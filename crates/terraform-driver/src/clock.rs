//! Wall clock; no other module of this crate reads it.

use jiff::Timestamp;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
