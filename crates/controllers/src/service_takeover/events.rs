//! Events of a takeover. Pure.

use capt_kinds::sandbox::names;
use capt_kube::k8s::EventSpec;

use super::{
    build::RevertHistory,
    decide::{ATTEMPTS, RestoreReason},
};

/// `action` of the events of this controller.
const ACTION: &str = "Route";

/// A Service was taken over.
pub(super) fn taken_over() -> EventSpec {
    EventSpec::normal(ACTION, "TakenOver", "traffic is routed through the router")
}

/// A Service was restored.
pub(super) fn restored(why: RestoreReason) -> EventSpec {
    match why {
        RestoreReason::NotRequested => {
            EventSpec::normal(ACTION, "Restored", "traffic goes to the Service's own pods again")
        }
        RestoreReason::NoRouter => {
            let note = "no router was ready for 5 s: traffic bypasses the router until one is";
            EventSpec::warning(ACTION, "RouterBypassed", note)
        }
    }
}

/// A Service was reverted by another client.
pub(super) fn reverted(history: &RevertHistory) -> EventSpec {
    let RevertHistory { count, by: who, .. } = history;
    let note = if *count > ATTEMPTS {
        format!(
            "{who} reverted the Service {count} times; giving up. Configure {who} to ignore spec.selector and \
             spec.ports[*].targetPort of this Service (Argo CD: ignoreDifferences), then remove the annotation {} \
             and add it again",
            names::ROUTING_ANNOTATION
        )
    } else {
        format!("{who} reverted the Service; it is taken over again ({count} of {ATTEMPTS})")
    };
    EventSpec::warning(ACTION, "ServiceReverted", note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_revert_tells_what_to_do() {
        let note = |count| reverted(&RevertHistory { count, by: "argocd".to_owned(), at: None }).note;
        assert_eq!(note(1), format!("argocd reverted the Service; it is taken over again (1 of {ATTEMPTS})"));
        let last = note(ATTEMPTS + 1);
        assert!(last.contains("giving up") && last.contains(names::ROUTING_ANNOTATION), "{last}");
    }

    #[test]
    fn a_bypass_is_a_warning_and_a_requested_end_is_none() {
        assert_eq!(restored(RestoreReason::NoRouter).reason, "RouterBypassed");
        assert_eq!(restored(RestoreReason::NotRequested).reason, "Restored");
        assert_eq!(taken_over().reason, "TakenOver");
    }
}
