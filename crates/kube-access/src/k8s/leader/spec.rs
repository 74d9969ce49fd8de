//! The contents of the Lease, as client-go writes them. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

use super::{FencingToken, LeaderCandidate};

/// Leader transitions that fit into a token below the Lease's creation time.
const MAX_TRANSITIONS: u64 = 1 << 20;

/// What a candidate may do with the Lease as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseClaim {
    /// The candidate holds it.
    Renew,
    /// An ended process of the same data directory holds it: its leadership is continued.
    Continue,
    /// Nobody holds it.
    Take,
    /// Another candidate holds it, unless it stops renewing it.
    Wait,
}

/// What this candidate may do with a Lease.
pub(super) fn claim(spec: &LeaseSpec, candidate: &LeaderCandidate) -> LeaseClaim {
    // client-go writes an empty string when it releases the Lease.
    match spec.holder_identity.as_deref().filter(|holder| !holder.is_empty()) {
        None => LeaseClaim::Take,
        Some(holder) if holder == candidate.identity => LeaseClaim::Renew,
        Some(holder) if Some(holder) == candidate.predecessor.as_deref() => LeaseClaim::Continue,
        Some(_) => LeaseClaim::Wait,
    }
}

/// The Lease as this candidate holds it, renewed now.
pub(super) fn held(
    before: Option<&LeaseSpec>,
    candidate: &LeaderCandidate,
    claim: LeaseClaim,
    now: Timestamp,
) -> LeaseSpec {
    let transitions = before.map(|spec| spec.lease_transitions.unwrap_or_default());
    let renews = claim == LeaseClaim::Renew;
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(candidate.duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: before
            .filter(|_| renews)
            .and_then(|spec| spec.acquire_time.clone())
            .or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(match (transitions, claim) {
            (None, _) => 0,
            (Some(count), LeaseClaim::Renew | LeaseClaim::Continue) => count,
            (Some(count), LeaseClaim::Take | LeaseClaim::Wait) => count.saturating_add(1),
        }),
        ..LeaseSpec::default()
    }
}

/// The Lease without a holder. The transitions stay, for the next one to count on.
pub(super) fn released(before: &LeaseSpec) -> LeaseSpec {
    LeaseSpec { lease_transitions: before.lease_transitions, ..LeaseSpec::default() }
}

/// `leaseTransitions` counts the leaders, but restarts with a recreated Lease; the creation time in the high bits keeps
/// tokens monotonic.
pub(super) fn token_from_lease(lease: &Lease) -> FencingToken {
    let created = lease.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let leaders = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    let created = u64::try_from(created).unwrap_or_default();
    let leaders = u64::try_from(leaders).unwrap_or_default().min(MAX_TRANSITIONS - 1);
    FencingToken(created.saturating_mul(MAX_TRANSITIONS).saturating_add(leaders))
}

/// A Lease that another candidate holds, and since when it is unchanged. Its times are those of another clock.
#[derive(Debug, Default)]
pub(super) struct ObservedLease(Option<(LeaseSpec, Duration)>);

impl ObservedLease {
    /// Whether the Lease has been unchanged for so long that its holder has given up.
    pub(super) fn has_expired(&mut self, spec: &LeaseSpec, duration: Duration, now: Duration) -> bool {
        match &self.0 {
            Some((known, since)) if known == spec => now.saturating_sub(*since) >= duration,
            _ => {
                self.0 = Some((spec.clone(), now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::leader::LEASE_NAME;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(created: &str, transitions: i32) -> Lease {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": LEASE_NAME, "creationTimestamp": created},
            "spec": {"leaseTransitions": transitions},
        }))
        .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_fence_grows_with_the_leaders_and_with_a_new_lease() {
        let first = token_from_lease(&lease("2026-11-01T10:00:00Z", 3));
        assert!(first < token_from_lease(&lease("2026-11-01T10:00:00Z", 4)));
        assert!(
            token_from_lease(&lease("2026-11-01T10:00:00Z", i32::MAX))
                < token_from_lease(&lease("2026-11-01T10:00:01Z", 0))
        );
    }

    #[test]
    fn the_timings_of_any_lease_are_consistent() {
        for duration in
            [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(15), Duration::from_hours(1)]
        {
            let candidate = LeaderCandidate::new("shop", "pod").with_duration(duration);
            assert!(candidate.duration >= Duration::from_secs(1));
            assert!(candidate.retry_period() < candidate.renew_deadline());
            assert!(candidate.renew_deadline() < candidate.duration);
        }
        assert_ne!(
            LeaderCandidate::new("shop", "pod").identity(),
            LeaderCandidate::new("shop", "pod").identity()
        );
    }

    #[test]
    fn each_leader_is_counted_and_a_renewal_is_not() {
        let (a, b) = (LeaderCandidate::new("shop", "a"), LeaderCandidate::new("shop", "b"));
        let first = held(None, &a, LeaseClaim::Take, at(1));
        assert_eq!((first.lease_transitions, first.lease_duration_seconds), (Some(0), Some(15)));
        let renewed = held(Some(&first), &a, claim(&first, &a), at(2));
        assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(0), &first.acquire_time));
        assert_ne!(renewed.renew_time, first.renew_time);
        assert_eq!(claim(&renewed, &b), LeaseClaim::Wait);
        let free = released(&renewed);
        assert_eq!((claim(&free, &b), free.lease_transitions), (LeaseClaim::Take, Some(0)));
        let next = held(Some(&free), &b, LeaseClaim::Take, at(3));
        assert_eq!((next.lease_transitions, next.acquire_time), (Some(1), Some(MicroTime(at(3)))));
    }

    #[test]
    fn the_successor_on_a_data_directory_continues_the_leadership_of_its_predecessor() {
        let before = held(None, &LeaderCandidate::new("shop", "a"), LeaseClaim::Take, at(1));
        let mut again = LeaderCandidate::new("shop", "a");
        assert_eq!(claim(&before, &again), LeaseClaim::Wait);
        again.predecessor.clone_from(&before.holder_identity);
        assert_eq!(claim(&before, &again), LeaseClaim::Continue);
        let continued = held(Some(&before), &again, LeaseClaim::Continue, at(2));
        assert_eq!(continued.lease_transitions, before.lease_transitions, "the fence stays");
        assert_eq!(continued.holder_identity.as_deref(), Some(again.identity()));
    }

    #[test]
    fn another_holder_is_waited_for_until_it_has_not_renewed_for_the_whole_duration() {
        let mut observed = ObservedLease::default();
        let spec = |second| held(None, &LeaderCandidate::new("shop", "a"), LeaseClaim::Take, at(second));
        let (first, renewed) = (spec(1), spec(2));
        let mut expired = |spec: &LeaseSpec, now: u32| observed.has_expired(spec, 15 * SECOND, SECOND * now);
        assert!(!expired(&first, 100));
        assert!(!expired(&first, 114));
        assert!(!expired(&renewed, 115), "it has just been renewed");
        assert!(!expired(&renewed, 129));
        assert!(expired(&renewed, 130));
    }
}
