//! Decides whether the session of a local workload is lost. Pure.

use std::time::Duration;

use capt_kinds::sandbox::{LocalWorkload, LocalWorkloadStatus, conditions::types};
use jiff::Timestamp;
use sandbox::{condition::is_true, local_status::active_session, ttl};

/// How long a router may send no heartbeat, which it writes every 30 s.
pub(super) const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(90);

/// What is known of the session of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionDecision {
    /// There is none.
    NoSession,
    /// It is alive; look again after this time.
    Alive(Duration),
    /// Its router stopped sending heartbeats.
    Lost,
}

impl SessionDecision {
    /// When to reconcile again.
    pub(super) const fn requeue_after(self) -> Option<Duration> {
        match self {
            Self::Alive(left) => Some(left),
            Self::NoSession | Self::Lost => None,
        }
    }
}

/// Decides from the last heartbeat.
pub(super) fn decide(object: &LocalWorkload, now: Timestamp) -> SessionDecision {
    let before = object.status.clone().unwrap_or_default();
    match heartbeat_time_left(&before, &object.spec.disconnect_grace_period, now) {
        None => SessionDecision::NoSession,
        Some(Duration::ZERO) => SessionDecision::Lost,
        Some(left) => SessionDecision::Alive(left),
    }
}

/// Time until the heartbeat of a session times out; `None` without a session. While an agent is reconnecting, its grace period is
/// added.
fn heartbeat_time_left(status: &LocalWorkloadStatus, grace: &str, now: Timestamp) -> Option<Duration> {
    let heard = active_session(status)?.last_heartbeat_time.as_ref()?.0;
    let grace = ttl::parse_grace_period(grace).and_then(|it| Duration::try_from(it).ok()).unwrap_or_default();
    let awaited = if is_true(&status.conditions, types::CONNECTED) { Duration::ZERO } else { grace };
    let silent = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
    Some((HEARTBEAT_TIMEOUT + awaited).saturating_sub(silent))
}
