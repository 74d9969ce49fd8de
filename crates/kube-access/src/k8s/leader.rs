//! Leader election by Lease, and the fencing token of each leader.
//!
//! Losing the Lease drops the work future at its next await. Spawned tasks outlive it, so the process must exit. The
//! [`FencingToken`] rejects writes of a former leader, and the deadline in the data directory ([`lease_deadline`]) stops the
//! processes that outlive a leader or do not notice that it is frozen.
//!
//! The times of a Lease, by the clock that counts suspended time, from the moment at which a renewal was sent:
//!
//! | part of the duration | |
//! |---|---|
//! | 2/15 | the next renewal |
//! | 2/3 | the last renewal must have succeeded: the leader gives up, and no change of its runs begins any more |
//! | 1 | another candidate may take the Lease |

mod protocol;
mod spec;

use std::{path::Path, time::Duration};

use lease_deadline::{LeaseFile, RunLease, clock::boot_id};
use terraform_driver::clock;
use tokio_util::sync::CancellationToken;

use self::protocol::LeaseProtocol;
use super::kube_client::KubeClient;

/// Name of the Lease.
pub const LEASE_NAME: &str = "capt-leader";
/// Default Lease duration.
const LEASE_DURATION: Duration = Duration::from_secs(15);

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
    file: Option<LeaseFile>,
    /// Holder identity of the process that used the data directory before.
    predecessor: Option<String>,
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
            file: None,
            predecessor: None,
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

    /// Records the deadline of each renewal in this data directory, whose lock this process holds. So the process that used it
    /// before has ended: if the Lease still names that one, this candidate continues its leadership, and its runs go on.
    #[must_use]
    pub fn with_data_directory(mut self, data: &Path) -> Self {
        let file = LeaseFile::in_data_directory(data);
        // After a restart of the machine there is nothing to continue, and a copy of the disk may be in use elsewhere.
        let here = boot_id().ok();
        let left = file.read().ok().flatten().filter(|record| Some(&record.boot_id) == here.as_ref());
        self.predecessor = left.map(|record| record.holder);
        self.file = Some(file);
        self
    }

    /// What the runs of a leadership have to carry; `None` if no deadline is recorded.
    pub fn run_lease(&self, fence: FencingToken) -> Option<RunLease> {
        Some(RunLease { file: self.file.clone()?, fence: fence.0 })
    }

    /// The holder identity.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Retry period: five attempts within the renew deadline of two thirds of the duration, as in client-go.
    fn retry_period(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// How long after a renewal was sent its holder acts as the leader. The rest is for what it has begun until then.
    fn renew_deadline(&self) -> Duration {
        self.duration * 2 / 3
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
    let protocol = LeaseProtocol { kube, candidate };
    let acquired = tokio::select! {
        biased;
        () = stop.cancelled() => {
            // It may have been acquired by a request whose response was not awaited.
            protocol.release().await;
            return LeadershipEnd::Stopped;
        }
        acquired = protocol.acquire() => acquired,
    };
    let fence = acquired.fence;
    // Boxed: the future is large.
    let mut work = Box::pin(work(fence));
    tokio::select! {
        // The loss of the Lease comes first: after a freeze the work must not go on for a moment.
        biased;
        () = protocol.hold(acquired) => LeadershipEnd::Lost,
        done = &mut work => {
            protocol.release().await;
            LeadershipEnd::Done(done)
        }
    }
}
