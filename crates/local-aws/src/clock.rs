//! The one reader of the wall clock. The EKS model is given `now` with every call, so its tests hold time still.

use jiff::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
