//! Events of an identity. Pure.

use capt_kube::k8s::EventSpec;

use super::act::Verification;

/// The event of a failed verification. Repetitions are suppressed when it is published.
pub(super) fn verification_event(verification: &Verification) -> Option<EventSpec> {
    let why = verification.as_ref().err()?;
    Some(EventSpec::warning("Verify", "IdentityRefused", why.clone()))
}
