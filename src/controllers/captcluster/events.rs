//! What is worth an event: the difference between what was said of a network and what is said now. Pure.

use crate::{
    api::{CaptClusterStatus, conditions::types},
    k8s::{
        conditions::{find, is_true, turned_true},
        events::News,
    },
};

/// What we do when we tell.
const ACTION: &str = "Reconcile";
/// The network is there.
const VPC_READY: &str = "VPCReady";
/// The network, or a change of it, failed.
const VPC_FAILED: &str = "VPCFailed";
/// It works again.
const RECOVERED: &str = "Recovered";
/// Nobody acts on it.
const PAUSED: &str = "Paused";
/// It is acted on again.
const UNPAUSED: &str = "Unpaused";
/// It goes.
const DELETING: &str = "Deleting";
/// It stays when its object goes.
pub(super) const VPC_RETAINED: &str = "VPCRetained";

/// What is worth telling.
pub(super) fn news(old: &CaptClusterStatus, new: &CaptClusterStatus) -> Vec<News> {
    let mut all = Vec::new();
    if let Some(ready) = turned_true(&old.conditions, &new.conditions, types::VPC_READY) {
        all.push(News::normal(ACTION, VPC_READY, format!("the network is complete: {}", ready.message)));
    }
    match (&old.failure_reason, &new.failure_reason) {
        (before, Some(reason)) if before.as_ref() != Some(reason) => {
            let why = new.failure_message.as_deref().unwrap_or_default();
            all.push(News::warning(ACTION, VPC_FAILED, format!("{reason}: {why}")));
        }
        (Some(reason), None) => {
            all.push(News::normal(ACTION, RECOVERED, format!("{reason} is over")));
        }
        _ => {}
    }
    if let Some(paused) = turned_true(&old.conditions, &new.conditions, types::PAUSED) {
        all.push(News::normal(ACTION, PAUSED, paused.message.clone()));
    } else if is_true(&old.conditions, types::PAUSED) && !is_true(&new.conditions, types::PAUSED) {
        all.push(News::normal(ACTION, UNPAUSED, "no longer paused"));
    }
    let going = find(&new.conditions, types::DELETING).filter(|it| it.status == "True");
    let before = find(&old.conditions, types::DELETING).filter(|it| it.status == "True");
    if let Some(going) = going.filter(|it| before.is_none_or(|before| before.reason != it.reason)) {
        all.push(News::normal(ACTION, DELETING, going.message.clone()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::conditions::reasons,
        k8s::conditions::{Said, set},
    };

    fn status(said: &[Said], failure: Option<&str>) -> CaptClusterStatus {
        let mut status =
            CaptClusterStatus { failure_reason: failure.map(ToOwned::to_owned), ..Default::default() };
        for one in said {
            let _ = set(&mut status.conditions, one.clone(), None, "2026-11-01T10:00:00Z".parse().unwrap());
        }
        status
    }

    fn reasons_of(old: &CaptClusterStatus, new: &CaptClusterStatus) -> Vec<&'static str> {
        news(old, new).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn every_transition_is_told_once() {
        let nothing = status(&[], None);
        let ready = status(&[Said::yes(types::VPC_READY, reasons::VPC_CREATED, "vpc-1")], None);
        let failed = status(&[], Some("VPCCreationFailed"));
        let waits = |reason| status(&[Said::yes(types::DELETING, reason, "waits")], None);
        assert_eq!(reasons_of(&nothing, &ready), ["VPCReady"]);
        assert_eq!(reasons_of(&ready, &ready), [""; 0]);
        assert_eq!(reasons_of(&nothing, &failed), ["VPCFailed"]);
        assert_eq!(reasons_of(&failed, &failed), [""; 0]);
        assert_eq!(reasons_of(&failed, &ready), ["VPCReady", "Recovered"]);
        let (first, second) = (waits("WaitingForControlPlaneDeletion"), waits("WaitingForWorkspaceDeletion"));
        assert_eq!(reasons_of(&ready, &first), ["Deleting"]);
        assert_eq!(reasons_of(&first, &second), ["Deleting"]);
        assert_eq!(reasons_of(&second, &second), [""; 0]);
    }

    #[test]
    fn a_pause_is_told_at_both_ends() {
        let on = status(&[Said::yes(types::PAUSED, reasons::PAUSED, "")], None);
        let off = status(&[Said::no(types::PAUSED, reasons::NOT_PAUSED, "")], None);
        assert_eq!(reasons_of(&off, &on), ["Paused"]);
        assert_eq!(reasons_of(&on, &off), ["Unpaused"]);
    }
}
