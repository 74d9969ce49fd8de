//! Prometheus metrics without globals: one [`Metrics`] handle, cloned to its users.
//!
//! Label values are `&'static str`, so object names cannot become labels and cardinality stays bounded. Known series are
//! created at start, so that rates begin at zero.
//!
//! | name | labels |
//! |---|---|
//! | `reconcile_total` | controller, outcome (completed, waiting, failed, abandoned) |
//! | `reconcile_errors_total` | controller, class |
//! | `reconcile_duration_seconds`, `work_queue_depth`, `work_queue_latency_seconds` | controller |
//! | `capt_runs` | phase |
//! | `capt_runs_finished_total` | operation, result |
//! | `capt_run_duration_seconds` | operation, phase |
//! | `capt_run_queue_wait_seconds` | lane |
//! | `capt_cluster_lock_wait_seconds`, `capt_drifted_workspaces`, `capt_state_replication_seconds` | |
//! | `capt_state_replication_lag_seconds`, `capt_journal_replication_seconds`, `capt_journal_replication_failures_total` | |
//! | `capt_plain_runs_total` | |
//! | `capt_fargate_profiles` | state |
//! | `capt_fargate_profile_creation_seconds`, `capt_fargate_profile_deletion_seconds` | |
//! | `capt_cluster_creation_seconds`, `capt_cluster_deletion_seconds` | |
//! | `capt_api_calls_total` | result (ok, failed, timeout) |
//! | `capt_leader`, `capt_build_info` (version) | |
//!
//! The counter of runs is not `capt_runs_total`, because in `OpenMetrics` that is the counter `capt_runs`, which is a gauge here.

mod controller;
mod families;
mod phase_timer;

use std::{fmt, sync::Arc, time::Duration};

pub use controller::{ControllerMetrics, ReconcileResult, ReconcileTimer};
use families::Families;
pub use phase_timer::PhaseTimer;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Result of an API server call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Successful.
    Ok,
    /// Failed.
    Failed,
    /// No response before the deadline.
    Timeout,
}

/// All metrics. Cheap to clone; clones share the registry.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    families: Families,
    api_calls: [Counter; 3],
    leader: Gauge,
    drifted: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// New metrics at zero.
    pub fn new(version: &'static str) -> Self {
        let (mut registry, families) = (Registry::default(), Families::default());
        families.register(&mut registry, version);
        let call = |result| families.api_calls.get_or_create_owned(&[("result", result)]);
        let calls = ["ok", "failed", "timeout"].map(call);
        let (leader, drifted) = (families.leader.clone(), families.drifted.clone());
        Self(Arc::new(Inner { registry, families, api_calls: calls, leader, drifted }))
    }

    /// The metrics of one controller.
    pub fn controller(&self, name: &'static str) -> ControllerMetrics {
        ControllerMetrics::new(&self.0.families, name)
    }

    /// Starts a run phase, which ends when the timer is dropped.
    #[must_use = "the run leaves the phase when the timer is dropped"]
    pub fn run_phase(&self, operation: &'static str, phase: &'static str) -> PhaseTimer {
        PhaseTimer::start(&self.0.families, operation, phase)
    }

    /// Records a finished run.
    pub fn run_finished(&self, operation: &'static str, result: &'static str) {
        self.0.families.runs_finished.get_or_create(&[("operation", operation), ("result", result)]).inc();
    }

    /// Records the wait for a scheduler slot.
    pub fn run_waited(&self, lane: &'static str, time: Duration) {
        self.0.families.run_wait.get_or_create(&[("lane", lane)]).observe(time.as_secs_f64());
    }

    /// Records the wait for an EKS cluster lock.
    pub fn lock_waited(&self, time: Duration) {
        self.0.families.lock_wait.observe(time.as_secs_f64());
    }

    /// Records a run that bypassed the gateway.
    pub fn record_gateway_bypass(&self) {
        self.0.families.gateway_bypasses.inc();
    }

    /// Sets the number of drifted workspaces.
    pub fn set_drifted(&self, workspaces: usize) {
        self.0.drifted.set(gauge_value(workspaces));
    }

    /// Records the duration of a state save.
    pub fn state_replicated(&self, time: Duration) {
        self.0.families.state_replication.observe(time.as_secs_f64());
    }

    /// Records how long a version of a state was on the disk only.
    pub fn state_lagged(&self, time: Duration) {
        self.0.families.state_replication_lag.observe(time.as_secs_f64());
    }

    /// Records the duration of a save of journal entries.
    pub fn journal_replicated(&self, time: Duration) {
        self.0.families.journal_replication.observe(time.as_secs_f64());
    }

    /// Records that journal entries could not be saved.
    pub fn journal_failed(&self) {
        self.0.families.journal_failures.inc();
    }

    /// Sets the number of Fargate profiles in a state.
    pub fn set_profiles(&self, state: &'static str, profiles: usize) {
        self.0.families.profiles.get_or_create(&[("state", state)]).set(gauge_value(profiles));
    }

    /// Sets the number of Sandboxes in a phase.
    pub fn set_sandboxes(&self, phase: &'static str, sandboxes: usize) {
        self.0.families.sandboxes.get_or_create(&[("phase", phase)]).set(gauge_value(sandboxes));
    }

    /// Records the route propagation time of a namespace.
    pub fn routes_propagated(&self, time: Duration) {
        self.0.families.route_propagation.observe(time.as_secs_f64());
    }

    /// Records the creation time of a Fargate profile.
    pub fn profile_created(&self, time: Duration) {
        self.0.families.profile_creation.observe(time.as_secs_f64());
    }

    /// Records the deletion time of a Fargate profile.
    pub fn profile_deleted(&self, time: Duration) {
        self.0.families.profile_deletion.observe(time.as_secs_f64());
    }

    /// Records the creation time of a cluster.
    pub fn cluster_created(&self, time: Duration) {
        self.0.families.cluster_creation.observe(time.as_secs_f64());
    }

    /// Records the deletion time of a cluster.
    pub fn cluster_deleted(&self, time: Duration) {
        self.0.families.cluster_deletion.observe(time.as_secs_f64());
    }

    /// Records an API server call.
    pub fn api_call(&self, result: CallResult) {
        let [ok, failed, timeout] = &self.0.api_calls;
        match result {
            CallResult::Ok => ok.inc(),
            CallResult::Failed => failed.inc(),
            CallResult::Timeout => timeout.inc(),
        };
    }

    /// Sets whether this process is the leader.
    pub fn set_leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// Encodes all metrics as `OpenMetrics` text ([`CONTENT_TYPE`]).
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 * 1024);
        text::encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
