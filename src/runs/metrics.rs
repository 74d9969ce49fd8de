//! Who measures the runs.

use std::time::Duration;

use super::lanes::Lane;
use crate::api::{RunOperation, RunPhase};

/// Measures until it is dropped.
pub type Timer = Box<dyn Send + Sync>;

/// Hears how long things take.
pub trait Meter: Send + Sync {
    /// A run waited so long for a free place.
    fn waited_for_place(&self, lane: Lane, waited: Duration);

    /// A run waited so long for its turn on an EKS cluster.
    fn waited_for_turn(&self, waited: Duration);

    /// A run is in a phase until what is given here is dropped.
    fn phase(&self, operation: RunOperation, phase: RunPhase) -> Timer;

    /// A command ran without the gateway.
    fn plain(&self) {}

    /// A run ended.
    fn ended(&self, operation: RunOperation, result: &'static str, took: Duration);
}

/// Nobody measures.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn waited_for_place(&self, _: Lane, _: Duration) {}
    fn waited_for_turn(&self, _: Duration) {}
    fn phase(&self, _: RunOperation, _: RunPhase) -> Timer {
        Box::new(())
    }
    fn ended(&self, _: RunOperation, _: &'static str, _: Duration) {}
}
