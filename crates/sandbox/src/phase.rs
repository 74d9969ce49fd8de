//! Derives the phase of an object from its conditions. The only place that does.

use capt_kinds::sandbox::{
    LocalPhase, Phase,
    conditions::{reasons, types},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::condition::{ConditionStatus, ConditionUpdate, is_true};

/// Inputs of the phase besides the conditions.
#[derive(Debug, Clone, Copy, Default)]
pub struct PhaseInputs {
    /// It is being deleted.
    pub deleting: bool,
    /// Its TTL has expired.
    pub expired: bool,
    /// It was ready with the current spec.
    pub was_ready: bool,
}

/// Whether an object was ready with its current spec, by its last status.
pub fn was_ready(phase: Option<Phase>, conditions: &[Condition], generation: Option<i64>) -> bool {
    let ready = conditions.iter().find(|it| it.type_ == types::READY);
    matches!(phase, Some(Phase::Ready | Phase::Degraded))
        && ready.is_some_and(|it| it.observed_generation == generation)
}

/// The phase of a Sandbox or a `RouteGroup`.
pub fn derive_phase(conditions: &[Condition], life: PhaseInputs) -> Phase {
    let is_false = |type_: &str| conditions.iter().any(|it| it.type_ == type_ && it.status == "False");
    if life.deleting {
        return Phase::Terminating;
    }
    if life.expired {
        return Phase::Expired;
    }
    if is_true(conditions, types::READY) {
        return Phase::Ready;
    }
    if conditions.iter().any(is_terminal) {
        return Phase::Failed;
    }
    if life.was_ready {
        return Phase::Degraded;
    }
    let waits = [types::ACCEPTED, types::BASELINE_RESOLVED, types::COMPUTE_READY].into_iter().any(is_false)
        || conditions.iter().any(|it| it.status == "False" && is_transient_reason(&it.reason));
    if waits || !is_true(conditions, types::ACCEPTED) { Phase::Pending } else { Phase::Progressing }
}

/// The phase of a local workload.
pub fn derive_local_phase(conditions: &[Condition]) -> LocalPhase {
    let of = |type_: &str| conditions.iter().find(|it| it.type_ == type_);
    if of(types::ACCEPTED).is_some_and(is_terminal) {
        return LocalPhase::Failed;
    }
    match of(types::CONNECTED).map(|it| (it.status.as_str(), it.reason.as_str())) {
        Some(("True", _)) => LocalPhase::Connected,
        Some((_, reasons::RECONNECTING)) => LocalPhase::Reconnecting,
        Some(("False", reasons::NOT_CONNECTED)) => LocalPhase::Disconnected,
        _ => LocalPhase::Pending,
    }
}

/// Whether a condition means that the object failed and needs a change of its spec.
fn is_terminal(condition: &Condition) -> bool {
    let failed = condition.status == ConditionStatus::False.as_str();
    match condition.type_.as_str() {
        types::ACCEPTED => failed && !is_transient_reason(&condition.reason),
        types::FORKS_READY => failed && condition.reason == reasons::PROGRESS_DEADLINE_EXCEEDED,
        types::ROUTES_PROGRAMMED => failed && condition.reason == reasons::GATEWAY_API_NOT_SERVED,
        _ => false,
    }
}

/// Reasons that resolve without a change of the spec.
fn is_transient_reason(reason: &str) -> bool {
    matches!(
        reason,
        reasons::TARGET_NOT_FOUND
            | reasons::BASELINE_NOT_FOUND
            | reasons::CLUSTER_NOT_READY
            | reasons::NO_FARGATE_PROFILE
            | reasons::SANDBOX_NOT_FOUND
            | reasons::NO_MATCHED_SANDBOXES
            | reasons::NO_ROUTERS
            | reasons::FORBIDDEN
            | reasons::NOT_ROUTED
            | reasons::ROUTER_BYPASSED
            | reasons::SERVICE_REVERTED
            | reasons::L7_UNAVAILABLE
    )
}

/// `Ready`: True when all others are, otherwise a copy of the first that is not.
pub fn ready_condition(findings: &[ConditionUpdate], types: &[&'static str]) -> ConditionUpdate {
    let others = types.iter().filter(|it| **it != types::READY);
    for type_ in others {
        match findings.iter().find(|it| it.type_ == *type_) {
            Some(it) if it.status == ConditionStatus::True => {}
            Some(it) if it.status == ConditionStatus::False => {
                return ConditionUpdate::no(types::READY, it.reason, it.message.clone());
            }
            Some(it) => return ConditionUpdate::no(types::READY, it.reason, it.message.clone()),
            None => {
                return ConditionUpdate::no(
                    types::READY,
                    reasons::PENDING,
                    format!("{type_} is not known yet"),
                );
            }
        }
    }
    ConditionUpdate::yes(types::READY, reasons::READY, "")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::condition::merge_conditions;

    fn conditions(findings: &[ConditionUpdate]) -> Vec<Condition> {
        let mut all = findings.to_vec();
        all.push(ready_condition(findings, &types::OF_SANDBOX));
        merge_conditions(&[], &all, &types::OF_SANDBOX, Some(1), Timestamp::UNIX_EPOCH)
    }

    /// All conditions but `Ready` hold, with some exceptions.
    fn but(exceptions: &[ConditionUpdate]) -> Vec<Condition> {
        let all = types::OF_SANDBOX.iter().filter(|it| **it != types::READY).map(|type_| {
            let exception = exceptions.iter().find(|it| it.type_ == *type_).cloned();
            exception.unwrap_or_else(|| ConditionUpdate::yes(type_, reasons::READY, ""))
        });
        conditions(&all.collect::<Vec<_>>())
    }

    fn no(type_: &'static str, reason: &'static str) -> [ConditionUpdate; 1] {
        [ConditionUpdate::no(type_, reason, "why")]
    }

    #[rstest]
    #[case::nobody_looked_yet(conditions(&[]), Phase::Pending)]
    #[case::all_hold(but(&[]), Phase::Ready)]
    #[case::bad_spec(but(&no(types::ACCEPTED, reasons::CONTAINER_NOT_FOUND)), Phase::Failed)]
    #[case::no_baseline(but(&no(types::BASELINE_RESOLVED, reasons::BASELINE_NOT_FOUND)), Phase::Pending)]
    #[case::no_cluster(but(&no(types::BASELINE_RESOLVED, reasons::CLUSTER_NOT_READY)), Phase::Pending)]
    #[case::no_profile(but(&no(types::COMPUTE_READY, reasons::NO_FARGATE_PROFILE)), Phase::Pending)]
    #[case::no_target(but(&no(types::ACCEPTED, reasons::TARGET_NOT_FOUND)), Phase::Pending)]
    #[case::a_quota(but(&no(types::ACCEPTED, reasons::FORBIDDEN)), Phase::Pending)]
    #[case::no_such_object(but(&no(types::ACCEPTED, reasons::REFUSED_BY_SERVER)), Phase::Failed)]
    #[case::pods_start(but(&no(types::FORKS_READY, reasons::PROGRESSING)), Phase::Progressing)]
    #[case::fargate_starts(but(&no(types::FORKS_READY, reasons::WAITING_FOR_FARGATE)), Phase::Progressing)]
    #[case::image_is_missing(but(&no(types::FORKS_READY, reasons::POD_FAILING)), Phase::Progressing)]
    #[case::too_late(but(&no(types::FORKS_READY, reasons::PROGRESS_DEADLINE_EXCEEDED)), Phase::Failed)]
    #[case::routers_lag(but(&no(types::ROUTES_PROGRAMMED, reasons::ROUTERS_BEHIND)), Phase::Progressing)]
    #[case::nobody_connected(but(&no(types::LOCALS_CONNECTED, reasons::NOT_CONNECTED)), Phase::Progressing)]
    fn the_phase_follows_from_the_conditions(#[case] conditions: Vec<Condition>, #[case] expected: Phase) {
        assert_eq!(derive_phase(&conditions, PhaseInputs::default()), expected);
    }

    #[test]
    fn what_was_ready_degrades_and_keeps_the_word_until_the_spec_changes() {
        let ready = but(&[]);
        let down = but(&no(types::FORKS_READY, reasons::POD_FAILING));
        assert!(was_ready(Some(Phase::Ready), &ready, Some(1)));
        let life = PhaseInputs { was_ready: true, ..PhaseInputs::default() };
        assert_eq!(derive_phase(&down, life), Phase::Degraded);
        assert!(was_ready(Some(Phase::Degraded), &down, Some(1)));
        assert!(!was_ready(Some(Phase::Ready), &ready, Some(2)));
        assert!(!was_ready(Some(Phase::Progressing), &down, Some(1)));
        let gone = but(&no(types::BASELINE_RESOLVED, reasons::BASELINE_DELETED));
        assert_eq!(derive_phase(&gone, life), Phase::Degraded);
    }

    #[test]
    fn deletion_and_expiry_come_before_everything() {
        let all = but(&[]);
        assert_eq!(
            derive_phase(&all, PhaseInputs { expired: true, ..PhaseInputs::default() }),
            Phase::Expired
        );
        assert_eq!(
            derive_phase(&all, PhaseInputs { deleting: true, expired: true, was_ready: true }),
            Phase::Terminating
        );
    }

    #[test]
    fn ready_repeats_the_first_reason_that_is_in_the_way() {
        let all = but(&[
            ConditionUpdate::no(types::FORKS_READY, reasons::POD_FAILING, "ImagePullBackOff"),
            ConditionUpdate::no(types::ROUTES_PROGRAMMED, reasons::ROUTERS_BEHIND, "1/2"),
        ]);
        let ready = all.iter().find(|it| it.type_ == types::READY).unwrap();
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            (reasons::POD_FAILING, "ImagePullBackOff")
        );
    }

    #[rstest]
    #[case(ConditionUpdate::yes(types::CONNECTED, reasons::CONNECTED, ""), LocalPhase::Connected)]
    #[case(ConditionUpdate::no(types::CONNECTED, reasons::RECONNECTING, ""), LocalPhase::Reconnecting)]
    #[case(ConditionUpdate::no(types::CONNECTED, reasons::NOT_CONNECTED, ""), LocalPhase::Disconnected)]
    #[case(ConditionUpdate::unknown(types::CONNECTED, reasons::PENDING, ""), LocalPhase::Pending)]
    #[case(ConditionUpdate::no(types::ACCEPTED, reasons::INVALID_SPEC, ""), LocalPhase::Failed)]
    fn the_phase_of_a_local_workload_follows_from_its_connection(
        #[case] said: ConditionUpdate,
        #[case] expected: LocalPhase,
    ) {
        let all = merge_conditions(&[], &[said], &types::OF_LOCAL_WORKLOAD, None, Timestamp::UNIX_EPOCH);
        assert_eq!(derive_local_phase(&all), expected);
    }
}
