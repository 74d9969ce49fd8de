//! The only reader of the wall clock, so that code which depends on time can be given it by its caller.

use jiff::Timestamp;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
