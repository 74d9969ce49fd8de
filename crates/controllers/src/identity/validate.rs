//! Validates the spec of an identity. Pure.

use capt_kinds::api::CaptIdentity;
use capt_model::model::identity::{self, ValidatedIdentity};

/// The validated spec, or all problems in one message.
pub(super) fn validate(object: &CaptIdentity) -> Result<ValidatedIdentity, String> {
    identity::validate(&object.spec)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}
