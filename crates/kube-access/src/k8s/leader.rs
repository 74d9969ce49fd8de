//! Leader election by Lease, and the fencing token of each leader.
//!
//! Losing the Lease drops the work future at its next await. Spawned tasks outlive it, so the process must exit. The
//! [`FencingToken`] rejects writes of a former leader.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_controller::LeaderElection;
use k8s_openapi::api::coordination::v1::Lease;
use terraform_driver::clock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{error::K8sError, kube_client::KubeClient};

/// Name of the Lease.
pub const LEASE_NAME: &str = "capt-leader";
/// Default Lease duration.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Leader transitions that fit into a token below the Lease's creation time.
const MAX_TRANSITIONS: u64 = 1 << 20;

/// Fencing token: grows with every leader. A write with a lower token than already seen comes from a former leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

impl std::fmt::Display for FencingToken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

/// A candidate and its Lease.
#[derive(Debug, Clone)]
pub struct LeaderCandidate {
    namespace: String,
    name: String,
    identity: String,
    duration: Duration,
}

impl LeaderCandidate {
    /// A candidate for the Lease [`LEASE_NAME`] in this namespace. `host` (the pod name) is informational; the identity is unique
    /// even across restarts of the same host.
    pub fn new(namespace: &str, host: &str) -> Self {
        let identity = format!("{host}_{}_{}", std::process::id(), clock::now().as_nanosecond());
        Self {
            namespace: namespace.to_owned(),
            name: LEASE_NAME.to_owned(),
            identity,
            duration: LEASE_DURATION,
        }
    }

    /// Sets the Lease name.
    #[must_use]
    pub fn with_lease(mut self, lease: &str) -> Self {
        lease.clone_into(&mut self.name);
        self
    }

    /// Sets the Lease duration; at least a second.
    #[must_use]
    pub fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = duration.max(Duration::from_secs(1));
        self
    }

    /// The holder identity.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Retry period: five attempts within the renew deadline of two thirds of the duration, as in client-go.
    fn retry_period(&self) -> Duration {
        self.duration * 2 / 15
    }

    fn election(&self, kube: &KubeClient) -> LeaderElection {
        LeaderElection::new(kube.client().clone(), &self.namespace, &self.name, &self.identity)
            .with_lease_duration(self.duration)
            .with_renew_deadline(self.duration * 2 / 3)
            .with_retry_period(self.retry_period())
    }
}

/// How leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadershipEnd<T> {
    /// The work completed; the Lease is released.
    Done(T),
    /// The Lease was lost and the work dropped. The process must exit, because spawned tasks may still run.
    Lost,
    /// Stopped before becoming the leader.
    Stopped,
}

/// Acquires the Lease and runs the work while it is held. Once the work runs, it handles the stop token itself: it shuts
/// down gracefully and returns, then the Lease is released.
pub async fn run_as_leader<W, F>(
    kube: &KubeClient,
    candidate: &LeaderCandidate,
    stop: &CancellationToken,
    work: W,
) -> LeadershipEnd<F::Output>
where
    W: FnOnce(FencingToken) -> F,
    F: Future,
{
    let election = candidate.election(kube);
    let leads = AtomicBool::new(false);
    // Boxed: the future is large.
    let led = Box::pin(election.with_lease(async {
        let fence = wait_for_token(kube, candidate).await;
        leads.store(true, Ordering::Release);
        work(fence).await
    }));
    let stopped = async {
        stop.cancelled().await;
        if leads.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        done = led => done.map_or(LeadershipEnd::Lost, LeadershipEnd::Done),
        () = stopped => {
            // The Lease may have been acquired concurrently.
            election.release().await;
            LeadershipEnd::Stopped
        }
    }
}

/// Reads the token, retrying until it is known. If that takes too long, the Lease is lost and this future dropped.
async fn wait_for_token(kube: &KubeClient, candidate: &LeaderCandidate) -> FencingToken {
    loop {
        match kube.get::<Lease>(Some(&candidate.namespace), &candidate.name).await {
            Ok(Some(lease)) if is_held_by(&lease, &candidate.identity) => return token_from_lease(&lease),
            Ok(_) => {}
            Err(error) => log_lease_error(&error),
        }
        sleep(candidate.retry_period()).await;
    }
}

fn log_lease_error(error: &K8sError) {
    tracing::warn!(error = error as &dyn std::error::Error, "cannot read the leader election Lease");
}

fn is_held_by(lease: &Lease, identity: &str) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(identity)
}

/// `leaseTransitions` counts the leaders, but restarts with a recreated Lease; the creation time in the high bits keeps
/// tokens monotonic.
fn token_from_lease(lease: &Lease) -> FencingToken {
    let created = lease.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let leaders = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    let created = u64::try_from(created).unwrap_or_default();
    let leaders = u64::try_from(leaders).unwrap_or_default().min(MAX_TRANSITIONS - 1);
    FencingToken(created.saturating_mul(MAX_TRANSITIONS).saturating_add(leaders))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(created: &str, transitions: i32) -> Lease {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": LEASE_NAME, "creationTimestamp": created},
            "spec": {"leaseTransitions": transitions},
        }))
        .unwrap()
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
            assert!(candidate.retry_period() < candidate.duration * 2 / 3);
        }
        assert_ne!(
            LeaderCandidate::new("shop", "pod").identity(),
            LeaderCandidate::new("shop", "pod").identity()
        );
    }
}
