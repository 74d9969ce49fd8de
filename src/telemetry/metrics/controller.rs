//! Metrics of one controller.

use std::time::{Duration, Instant};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

use super::{
    families::{Families, TwoLabels},
    gauge_value,
};

/// Outcome of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Completed.
    Completed,
    /// Waiting for something; not an error.
    Waiting,
    /// Failed.
    Failed,
    /// Dropped before its end.
    Abandoned,
}

impl ReconcileResult {
    const ALL: [Self; 4] = [Self::Completed, Self::Waiting, Self::Failed, Self::Abandoned];

    const fn label(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The handle of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    name: &'static str,
    reconciles: Family<TwoLabels, Counter>,
    errors: Family<TwoLabels, Counter>,
    duration: Histogram,
    depth: Gauge,
    latency: Histogram,
}

impl ControllerMetrics {
    pub(super) fn new(families: &Families, name: &'static str) -> Self {
        let label = [("controller", name)];
        for outcome in ReconcileResult::ALL {
            drop(
                families
                    .reconciles
                    .get_or_create_owned(&[("controller", name), ("outcome", outcome.label())]),
            );
        }
        Self {
            name,
            reconciles: families.reconciles.clone(),
            errors: families.reconcile_errors.clone(),
            duration: families.reconcile_duration.get_or_create_owned(&label),
            depth: families.queue_depth.get_or_create_owned(&label),
            latency: families.queue_latency.get_or_create_owned(&label),
        }
    }

    /// Starts timing a reconcile, until the timer is completed or dropped.
    #[must_use = "a timer that is dropped counts an abandoned reconcile"]
    pub fn reconcile(&self) -> ReconcileTimer {
        ReconcileTimer { metrics: self.clone(), started: Instant::now(), outcome: ReconcileResult::Abandoned }
    }

    /// Sets the queue depth.
    pub fn set_queue_depth(&self, objects: usize) {
        self.depth.set(gauge_value(objects));
    }

    /// Records the queue latency of an object.
    pub fn queue_waited(&self, time: Duration) {
        self.latency.observe(time.as_secs_f64());
    }
}

/// Timer of a running reconcile. Dropped without a result it counts as abandoned: cancelled or panicked.
#[derive(Debug)]
pub struct ReconcileTimer {
    metrics: ControllerMetrics,
    started: Instant,
    outcome: ReconcileResult,
}

impl ReconcileTimer {
    /// Completed.
    pub fn completed(mut self) {
        self.outcome = ReconcileResult::Completed;
    }

    /// Waiting.
    pub fn waiting(mut self) {
        self.outcome = ReconcileResult::Waiting;
    }

    /// Failed with an error of this class.
    pub fn failed(mut self, class: &'static str) {
        self.outcome = ReconcileResult::Failed;
        let labels = [("controller", self.metrics.name), ("class", class)];
        self.metrics.errors.get_or_create(&labels).inc();
    }
}

impl Drop for ReconcileTimer {
    fn drop(&mut self) {
        self.metrics.duration.observe(self.started.elapsed().as_secs_f64());
        let labels = [("controller", self.metrics.name), ("outcome", self.outcome.label())];
        self.metrics.reconciles.get_or_create(&labels).inc();
    }
}
