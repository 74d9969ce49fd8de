//! The wall clock as the type that the tunnel compares.

use std::time::SystemTime;

/// The current time.
pub(super) fn now() -> SystemTime {
    capt_util::clock::now().into()
}
