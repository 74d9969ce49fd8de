//! The only reader of the wall clock in the tunnel.

use std::time::SystemTime;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
