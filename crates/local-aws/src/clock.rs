//! The only reader of the wall clock. The EKS model gets `now` with every call, so that its tests control time.

use jiff::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
