//! Validates a Sandbox: its spec, and that no other Sandbox holds its routing key. Pure.

use capt_kinds::sandbox::Sandbox;
use sandbox::{rejection::Rejection, validate::validate_sandbox};

use super::key_conflict::{self, Claimant};

/// Why a Sandbox is rejected before anything is read for it.
pub(super) fn validate(object: &Sandbox, key: &str, claimants: &[Claimant]) -> Result<(), Rejection> {
    validate_sandbox(object).and_then(|()| key_conflict::check_routing_key(object, key, claimants))
}

/// The routing key of a Sandbox: `spec.routingKey`, or a digest of its uid.
pub(super) fn routing_key(object: &Sandbox) -> String {
    let said = object.spec.routing_key.clone().filter(|it| !it.is_empty());
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    said.unwrap_or_else(|| sandbox::digest::routing_key(uid))
}
