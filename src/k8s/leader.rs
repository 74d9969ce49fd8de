//! One leader at a time, by Lease, and the number that tells a leader from those before it.
//!
//! Losing the Lease ends the work at its next pause. What was spawned outlives that: whoever leads must let the process
//! end, or hold what it spawned. The [`Fence`] is for writes that must not come from a leader of the past.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_controller::LeaderElection;
use k8s_openapi::api::coordination::v1::Lease;
use terraform_driver::clock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{call::Kube, error::K8sError};

/// Name of the Lease.
pub const LEASE: &str = "capt-leader";
/// How long a leader that went silent is waited for, unless told otherwise.
const DURATION: Duration = Duration::from_secs(15);
/// Room for this many leaders of one Lease below the moment of its creation.
const TRANSITIONS: u64 = 1 << 20;

/// A number that grows with every leader. Whoever has a lower one than was seen before is a leader of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl std::fmt::Display for Fence {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

/// Who would lead, and where that is settled.
#[derive(Debug, Clone)]
pub struct Candidate {
    namespace: String,
    name: String,
    identity: String,
    duration: Duration,
}

impl Candidate {
    /// A candidate for the Lease [`LEASE`] in this namespace. `host` is for people (a pod's name); no two candidates are
    /// the same, not even the same host after a restart.
    pub fn new(namespace: &str, host: &str) -> Self {
        let identity = format!("{host}_{}_{}", std::process::id(), clock::now().as_nanosecond());
        Self { namespace: namespace.to_owned(), name: LEASE.to_owned(), identity, duration: DURATION }
    }

    /// Another Lease.
    #[must_use]
    pub fn named(mut self, lease: &str) -> Self {
        lease.clone_into(&mut self.name);
        self
    }

    /// How long a leader that went silent is waited for; at least a second.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.duration = duration.max(Duration::from_secs(1));
        self
    }

    /// What stands in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Pauses between attempts: two thirds of the Lease are for renewing it, in five attempts, as in client-go.
    fn pause(&self) -> Duration {
        self.duration * 2 / 15
    }

    fn election(&self, kube: &Kube) -> LeaderElection {
        LeaderElection::new(kube.client().clone(), &self.namespace, &self.name, &self.identity)
            .with_lease_duration(self.duration)
            .with_renew_deadline(self.duration * 2 / 3)
            .with_retry_period(self.pause())
    }
}

/// How leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended<T> {
    /// The work was done; the next may lead at once.
    Done(T),
    /// The Lease was lost and the work was dropped. The process should end: what it spawned may still run.
    Lost,
    /// We were asked to stop before we led.
    Stopped,
}

/// Waits for the Lease, then works while it is held. Once the work runs, stopping is the work's own affair: it sees the
/// same token, ends what it does, and returns; then the Lease is released.
pub async fn lead<W, F>(
    kube: &Kube,
    candidate: &Candidate,
    stop: &CancellationToken,
    work: W,
) -> Ended<F::Output>
where
    W: FnOnce(Fence) -> F,
    F: Future,
{
    let election = candidate.election(kube);
    let leads = AtomicBool::new(false);
    let led = election.with_lease(async {
        let fence = fence(kube, candidate).await;
        leads.store(true, Ordering::Release);
        work(fence).await
    });
    let stopped = async {
        stop.cancelled().await;
        if leads.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        done = led => done.map_or(Ended::Lost, Ended::Done),
        () = stopped => {
            // The Lease may have come to us in this very moment.
            election.release().await;
            Ended::Stopped
        }
    }
}

/// Our number. Asked until it is known: if that takes too long, the Lease is lost, and with it whoever waits here.
async fn fence(kube: &Kube, candidate: &Candidate) -> Fence {
    loop {
        match kube.get::<Lease>(Some(&candidate.namespace), &candidate.name).await {
            Ok(Some(lease)) if is_held_by(&lease, &candidate.identity) => return fence_of(&lease),
            Ok(_) => {}
            Err(error) => log(&error),
        }
        sleep(candidate.pause()).await;
    }
}

fn log(error: &K8sError) {
    tracing::warn!(error = error as &dyn std::error::Error, "cannot read our own Lease");
}

fn is_held_by(lease: &Lease, identity: &str) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(identity)
}

/// The server counts the leaders of a Lease. A Lease that somebody deletes begins to count again, but later than the one
/// before it, so the moment of its creation goes first.
fn fence_of(lease: &Lease) -> Fence {
    let created = lease.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let leaders = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    let created = u64::try_from(created).unwrap_or_default();
    let leaders = u64::try_from(leaders).unwrap_or_default().min(TRANSITIONS - 1);
    Fence(created.saturating_mul(TRANSITIONS).saturating_add(leaders))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(created: &str, transitions: i32) -> Lease {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": LEASE, "creationTimestamp": created},
            "spec": {"leaseTransitions": transitions},
        }))
        .unwrap()
    }

    #[test]
    fn a_fence_grows_with_the_leaders_and_with_a_new_lease() {
        let first = fence_of(&lease("2026-11-01T10:00:00Z", 3));
        assert!(first < fence_of(&lease("2026-11-01T10:00:00Z", 4)));
        assert!(
            fence_of(&lease("2026-11-01T10:00:00Z", i32::MAX)) < fence_of(&lease("2026-11-01T10:00:01Z", 0))
        );
    }

    #[test]
    fn the_timings_of_any_lease_are_consistent() {
        for duration in
            [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(15), Duration::from_hours(1)]
        {
            let candidate = Candidate::new("shop", "pod").lasting(duration);
            assert!(candidate.duration >= Duration::from_secs(1));
            assert!(candidate.pause() < candidate.duration * 2 / 3);
        }
        assert_ne!(Candidate::new("shop", "pod").identity(), Candidate::new("shop", "pod").identity());
    }
}
