//! Computes the status of an identity from its verification and its users. Pure.

use capt_kinds::api::{
    CaptIdentity, CaptIdentityStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::{self, ConditionUpdate};
use jiff::Timestamp;

use super::act::Verification;

/// The status after a verification.
pub(super) fn observed(
    object: &CaptIdentity,
    verification: &Verification,
    users: &[String],
    now: Timestamp,
) -> CaptIdentityStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let ready = match verification {
        Ok(caller) => {
            status.account = Some(caller.id.clone());
            status.arn = Some(caller.arn.clone());
            let message = format!("authenticated as {}", caller.arn);
            ConditionUpdate::status_true(types::READY, reasons::IDENTITY_VERIFIED, message)
        }
        Err(why) => ConditionUpdate::status_false(types::READY, reasons::IDENTITY_REFUSED, why.clone()),
    };
    let deleting = object.metadata.deletion_timestamp.is_some().then(|| {
        let message = format!("in use by {}", users.join(", "));
        ConditionUpdate::status_true(types::DELETING, reasons::IN_USE, message)
    });
    for update in [Some(ready), deleting].into_iter().flatten() {
        let _transition = conditions::set(&mut status.conditions, update, generation, now);
    }
    status.observed_generation = generation;
    status
}
