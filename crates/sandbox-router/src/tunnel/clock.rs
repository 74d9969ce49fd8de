//! The wall clock. It is read here alone.

use std::time::SystemTime;

/// What time it is.
#[expect(clippy::disallowed_methods, reason = "this is the room of the clock")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
