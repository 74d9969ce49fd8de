//! Timer of a run phase.

use std::time::Instant;

use prometheus_client::metrics::{gauge::Gauge, histogram::Histogram};

use super::families::Families;

/// Counts a run in a phase until it is dropped, so the gauge never counts finished runs.
#[derive(Debug)]
pub struct PhaseTimer {
    runs: Gauge,
    duration: Histogram,
    started: Instant,
}

impl PhaseTimer {
    pub(super) fn start(families: &Families, operation: &'static str, phase: &'static str) -> Self {
        let runs = families.runs.get_or_create_owned(&[("phase", phase)]);
        let labels = [("operation", operation), ("phase", phase)];
        let duration = families.run_duration.get_or_create_owned(&labels);
        runs.inc();
        Self { runs, duration, started: Instant::now() }
    }
}

impl Drop for PhaseTimer {
    fn drop(&mut self) {
        self.runs.dec();
        self.duration.observe(self.started.elapsed().as_secs_f64());
    }
}
