//! Computes the status of a local workload from its inputs and the decision about its session. Pure.

use capt_kinds::sandbox::{
    LocalWorkload, LocalWorkloadStatus, Sandbox,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use sandbox::{
    condition::{ConditionUpdate, is_true},
    local_status::{ConnectionState, connection_conditions, merge_status},
};

use super::{
    decide::SessionDecision,
    dereference::{BaselineLookup, LocalWorkloadInputs},
};

/// The new status. Conditions of the connection stay as the router wrote them unless the session is lost.
pub(super) fn observed(
    object: &LocalWorkload,
    (around, accepted): (&LocalWorkloadInputs, ConditionUpdate),
    decision: SessionDecision,
    now: Timestamp,
) -> LocalWorkloadStatus {
    let before = object.status.clone().unwrap_or_default();
    let mut found = vec![accepted, programmed_condition(around.sandbox.as_ref())];
    if decision == SessionDecision::Lost {
        let why = "the router that held the connection stopped sending heartbeats";
        found.extend(connection_conditions(&ConnectionState::Disconnected(why.to_owned()), &before.ports));
    }
    let mut status = merge_status(&before, &found, object.metadata.generation, now);
    status.observed_generation = object.metadata.generation;
    // Kept while the baseline is missing: the Services apply again when it is recreated.
    if let BaselineLookup::Found(services) = &around.baseline {
        status.services.clone_from(services);
    }
    status
}

/// `RoutesProgrammed`, copied from the Sandbox: a local workload has no routes of its own.
fn programmed_condition(sandbox: Option<&Sandbox>) -> ConditionUpdate {
    let conditions = sandbox.and_then(|it| it.status.as_ref()).map(|it| it.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    if is_true(conditions, types::ROUTES_PROGRAMMED) {
        return ConditionUpdate::yes(types::ROUTES_PROGRAMMED, reasons::PROGRAMMED, "");
    }
    let why = conditions.iter().find(|it| it.type_ == types::ROUTES_PROGRAMMED);
    let message = why.map_or("the Sandbox has not reported its routes yet", |it| it.message.as_str());
    match why.map(|it| it.status.as_str()) {
        Some("False") => ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::ROUTERS_BEHIND, message),
        _ => ConditionUpdate::unknown(types::ROUTES_PROGRAMMED, reasons::PENDING, message),
    }
}
