//! Metrics, without globals: one [`Metrics`], cloned to whoever measures.
//!
//! Every label value is a `&'static str` from the code, so a series is never made per object: names of objects have no
//! lifetime that fits. Series that can exist from the start are made at the start, so that a rate has a zero to rise from.
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
//! | `capt_plain_runs_total` | |
//! | `capt_fargate_profiles` | state |
//! | `capt_fargate_profile_creation_seconds`, `capt_fargate_profile_deletion_seconds` | |
//! | `capt_cluster_creation_seconds`, `capt_cluster_deletion_seconds` | |
//! | `capt_api_calls_total` | result (ok, failed, timeout) |
//! | `capt_leader`, `capt_build_info` (version) | |
//!
//! The counter of runs is not `capt_runs_total`: in `OpenMetrics` that is the counter `capt_runs`, and a gauge has the name.

mod controller;
mod families;
mod runs;

use std::{fmt, sync::Arc, time::Duration};

pub use controller::{ControllerMetrics, Outcome, ReconcileTimer};
use families::Families;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
pub use runs::PhaseTimer;

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a call to the API server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// With an answer that we wanted.
    Ok,
    /// With another.
    Failed,
    /// With none in time.
    Timeout,
}

/// Everything that is measured. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    families: Families,
    calls: [Counter; 3],
    leader: Gauge,
    drifted: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Metrics at zero, of a program of this version.
    pub fn new(version: &'static str) -> Self {
        let (mut registry, families) = (Registry::default(), Families::default());
        families.register(&mut registry, version);
        let call = |result| families.api_calls.get_or_create_owned(&[("result", result)]);
        let calls = ["ok", "failed", "timeout"].map(call);
        let (leader, drifted) = (families.leader.clone(), families.drifted.clone());
        Self(Arc::new(Inner { registry, families, calls, leader, drifted }))
    }

    /// The handle of one controller.
    pub fn controller(&self, name: &'static str) -> ControllerMetrics {
        ControllerMetrics::new(&self.0.families, name)
    }

    /// A run enters a phase, which it leaves when the timer is dropped.
    #[must_use = "the run leaves the phase when the timer is dropped"]
    pub fn run_phase(&self, operation: &'static str, phase: &'static str) -> PhaseTimer {
        PhaseTimer::start(&self.0.families, operation, phase)
    }

    /// A run ended.
    pub fn run_finished(&self, operation: &'static str, result: &'static str) {
        self.0.families.runs_finished.get_or_create(&[("operation", operation), ("result", result)]).inc();
    }

    /// A run waited so long for a slot of its lane.
    pub fn run_waited(&self, lane: &'static str, time: Duration) {
        self.0.families.run_wait.get_or_create(&[("lane", lane)]).observe(time.as_secs_f64());
    }

    /// A run waited so long for the lock of its EKS cluster.
    pub fn lock_waited(&self, time: Duration) {
        self.0.families.lock_wait.observe(time.as_secs_f64());
    }

    /// A run had to do without the gateway.
    pub fn plain_run(&self) {
        self.0.families.plain_runs.inc();
    }

    /// So many workspaces differ from reality.
    pub fn set_drifted(&self, workspaces: usize) {
        self.0.drifted.set(number(workspaces));
    }

    /// A snapshot of a state was copied to the API server in this time.
    pub fn state_replicated(&self, time: Duration) {
        self.0.families.state_replication.observe(time.as_secs_f64());
    }

    /// So many Fargate profiles are in this state.
    pub fn set_profiles(&self, state: &'static str, profiles: usize) {
        self.0.families.profiles.get_or_create(&[("state", state)]).set(number(profiles));
    }

    /// So many Sandboxes are in this phase.
    pub fn set_sandboxes(&self, phase: &'static str, sandboxes: usize) {
        self.0.families.sandboxes.get_or_create(&[("phase", phase)]).set(number(sandboxes));
    }

    /// Routes were in all routers of a namespace after this time.
    pub fn routes_propagated(&self, time: Duration) {
        self.0.families.route_propagation.observe(time.as_secs_f64());
    }

    /// A Fargate profile was made in this time.
    pub fn profile_created(&self, time: Duration) {
        self.0.families.profile_creation.observe(time.as_secs_f64());
    }

    /// A Fargate profile was deleted in this time.
    pub fn profile_deleted(&self, time: Duration) {
        self.0.families.profile_deletion.observe(time.as_secs_f64());
    }

    /// A cluster became ready in this time.
    pub fn cluster_created(&self, time: Duration) {
        self.0.families.cluster_creation.observe(time.as_secs_f64());
    }

    /// A cluster was gone after this time.
    pub fn cluster_deleted(&self, time: Duration) {
        self.0.families.cluster_deletion.observe(time.as_secs_f64());
    }

    /// A call to the API server ended.
    pub fn api_call(&self, result: CallResult) {
        let [ok, failed, timeout] = &self.0.calls;
        match result {
            CallResult::Ok => ok.inc(),
            CallResult::Failed => failed.inc(),
            CallResult::Timeout => timeout.inc(),
        };
    }

    /// Whether this process leads.
    pub fn set_leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// Everything in the text format of `OpenMetrics`, whose content type is [`CONTENT_TYPE`].
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 * 1024);
        text::encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
