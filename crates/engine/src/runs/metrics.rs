//! Metrics hooks of runs; the operator connects them to Prometheus.

use std::time::Duration;

use capt_kinds::api::{RunOperation, RunPhase};

use super::scheduler::RunPriority;

/// Measures a phase until dropped.
pub type PhaseGuard = Box<dyn Send + Sync>;

/// Receives the measurements of runs.
pub trait RunMetrics: Send + Sync {
    /// Time that a run waited for a slot.
    fn record_slot_wait(&self, lane: RunPriority, waited: Duration);

    /// Time that a run waited for a cluster lock.
    fn record_cluster_lock_wait(&self, waited: Duration);

    /// A run entered a phase; it leaves the phase when the returned guard is dropped.
    fn start_phase(&self, operation: RunOperation, phase: RunPhase) -> PhaseGuard;

    /// A terraform command ran without the provider gateway.
    fn record_gateway_bypass(&self) {}

    /// Time from the write of a version of the state until it was in the backup store.
    fn record_state_lag(&self, _: Duration) {}

    /// Time to store journal entries.
    fn record_journal_replication(&self, _: Duration) {}

    /// Journal entries could not be stored.
    fn record_journal_failure(&self) {}

    /// A run finished with `result` after `took`.
    fn record_run(&self, operation: RunOperation, result: &'static str, took: Duration);
}

/// Discards all measurements.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRunMetrics;

impl RunMetrics for NoRunMetrics {
    fn record_slot_wait(&self, _: RunPriority, _: Duration) {}
    fn record_cluster_lock_wait(&self, _: Duration) {}
    fn start_phase(&self, _: RunOperation, _: RunPhase) -> PhaseGuard {
        Box::new(())
    }
    fn record_run(&self, _: RunOperation, _: &'static str, _: Duration) {}
}
