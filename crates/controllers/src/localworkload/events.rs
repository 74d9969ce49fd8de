//! Events of a local workload from its phase transitions. Pure.

use capt_kinds::sandbox::{LocalPhase, LocalWorkloadStatus, conditions::types};
use capt_kube::k8s::EventSpec;

/// The event for a phase transition.
pub(super) fn phase_event(before: Option<LocalPhase>, status: &LocalWorkloadStatus) -> Option<EventSpec> {
    let session = status.session.clone().unwrap_or_default();
    if before == status.phase {
        return None;
    }
    match status.phase {
        Some(LocalPhase::Disconnected) => {
            let note = format!("connection of {} lost", session.user);
            Some(EventSpec::warning("Connect", "TunnelLost", note))
        }
        Some(LocalPhase::Failed) => {
            let refused = status.conditions.iter().find(|it| it.type_ == types::ACCEPTED);
            let note = refused.map(|it| it.message.clone()).unwrap_or_default();
            Some(EventSpec::warning("Validate", "Refused", note))
        }
        _ => None,
    }
}
