//! Whether a group can be followed: the condition `Accepted`. Pure.

use capt_kinds::sandbox::{
    RouteGroup,
    conditions::{reasons, types},
};
use sandbox::{condition::ConditionUpdate, routes::OwnerRoutes, validate::validate_group};

/// Accepts the group, or states what is wrong with it or missing around it.
pub(super) fn accepted_condition(group: &RouteGroup, own: &OwnerRoutes) -> ConditionUpdate {
    let kind = types::ACCEPTED;
    if let Err(refusal) = validate_group(group) {
        return ConditionUpdate::no(kind, refusal.reason, refusal.message);
    }
    if let Some(older) = &own.key_holder {
        let why = format!("routing key {:?} is held by the older {older}", own.key);
        return ConditionUpdate::no(kind, reasons::ROUTING_KEY_CONFLICT, why);
    }
    match own.missing_targets.as_slice() {
        [] => ConditionUpdate::yes(kind, reasons::ACCEPTED, ""),
        missing => {
            let why = format!("no Service exists for the endpoints {}", missing.join(", "));
            ConditionUpdate::no(kind, reasons::TARGET_NOT_FOUND, why)
        }
    }
}
