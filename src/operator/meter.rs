//! Joins what the rooms count with the metrics.

use std::time::Duration;

use crate::{
    api::{RunOperation, RunPhase},
    controllers::common,
    k8s::{Outcome, Tally},
    runs::{Lane, Meter, Timer},
    telemetry::{Metrics, metrics::CallResult},
};

/// Measures runs and calls.
pub(super) struct Gauge {
    metrics: Metrics,
}

impl Gauge {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }
}

impl Meter for Gauge {
    fn waited_for_place(&self, lane: Lane, waited: Duration) {
        self.metrics.run_waited(lane.into(), waited);
    }

    fn waited_for_turn(&self, waited: Duration) {
        self.metrics.lock_waited(waited);
    }

    fn phase(&self, operation: RunOperation, phase: RunPhase) -> Timer {
        Box::new(self.metrics.run_phase(word(operation), stage(phase)))
    }

    fn plain(&self) {
        self.metrics.plain_run();
    }

    fn ended(&self, operation: RunOperation, result: &'static str, _: Duration) {
        self.metrics.run_finished(word(operation), result);
    }
}

const fn word(operation: RunOperation) -> &'static str {
    match operation {
        RunOperation::Apply => "apply",
        RunOperation::Check => "check",
        RunOperation::Destroy => "destroy",
    }
}

const fn stage(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Pending => "pending",
        RunPhase::Initializing => "initializing",
        RunPhase::Planning => "planning",
        RunPhase::AwaitingApproval => "awaiting_approval",
        RunPhase::Applying => "applying",
        RunPhase::Destroying => "destroying",
        RunPhase::Collecting => "collecting",
        RunPhase::Succeeded => "succeeded",
        RunPhase::Failed => "failed",
        RunPhase::Interrupted => "interrupted",
    }
}

/// Counts calls of the API server.
pub(super) struct Calls(pub(super) Metrics);

impl Tally for Calls {
    fn count(&self, _: &'static str, outcome: Outcome) {
        self.0.api_call(match outcome {
            Outcome::Ok => CallResult::Ok,
            Outcome::Failed => CallResult::Failed,
            Outcome::TimedOut => CallResult::Timeout,
        });
    }
}

/// Counts reconciles.
pub(super) struct Reconciles(pub(super) Metrics);

impl common::Meter for Reconciles {
    fn begin(&self, kind: &'static str) -> Box<dyn FnOnce(common::End) + Send> {
        let timer = self.0.controller(kind).reconcile();
        Box::new(move |end| match end {
            common::End::Done => timer.completed(),
            common::End::Failed(class) => timer.failed(class.as_str()),
        })
    }
}
