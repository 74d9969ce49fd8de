//! What one controller measures.

use std::time::{Duration, Instant};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

use super::{
    families::{Families, Two},
    number,
};

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do.
    Completed,
    /// It waits for something; that is no error.
    Waiting,
    /// With an error.
    Failed,
    /// Nobody waited for its end.
    Abandoned,
}

impl Outcome {
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
    reconciles: Family<Two, Counter>,
    errors: Family<Two, Counter>,
    duration: Histogram,
    depth: Gauge,
    latency: Histogram,
}

impl ControllerMetrics {
    pub(super) fn new(families: &Families, name: &'static str) -> Self {
        let label = [("controller", name)];
        for outcome in Outcome::ALL {
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

    /// A reconcile begins. It ends when the timer is told how, or dropped.
    #[must_use = "a timer that is dropped counts an abandoned reconcile"]
    pub fn reconcile(&self) -> ReconcileTimer {
        ReconcileTimer { metrics: self.clone(), started: Instant::now(), outcome: Outcome::Abandoned }
    }

    /// So many objects wait for a reconcile.
    pub fn set_queue_depth(&self, objects: usize) {
        self.depth.set(number(objects));
    }

    /// An object waited so long for its reconcile.
    pub fn queue_waited(&self, time: Duration) {
        self.latency.observe(time.as_secs_f64());
    }
}

/// A reconcile that goes on. Dropped without a word it counts as abandoned: somebody cancelled its future, or it panicked.
#[derive(Debug)]
pub struct ReconcileTimer {
    metrics: ControllerMetrics,
    started: Instant,
    outcome: Outcome,
}

impl ReconcileTimer {
    /// Nothing is left to do.
    pub fn completed(mut self) {
        self.outcome = Outcome::Completed;
    }

    /// It waits for something.
    pub fn waiting(mut self) {
        self.outcome = Outcome::Waiting;
    }

    /// It failed with an error of this class.
    pub fn failed(mut self, class: &'static str) {
        self.outcome = Outcome::Failed;
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
