//! Who measures the runs.

use std::time::Duration;

use super::lanes::Lane;
use crate::api::RunOperation;

/// Hears how long things take.
pub trait Meter: Send + Sync {
    /// A run waited so long for a free place.
    fn waited_for_place(&self, lane: Lane, waited: Duration);

    /// A run waited so long for its turn on an EKS cluster.
    fn waited_for_turn(&self, waited: Duration);

    /// A run began or ended: how many there are now.
    fn active(&self, runs: usize);

    /// A run ended.
    fn ended(&self, operation: RunOperation, result: &'static str, took: Duration);
}

/// Nobody measures.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn waited_for_place(&self, _: Lane, _: Duration) {}
    fn waited_for_turn(&self, _: Duration) {}
    fn active(&self, _: usize) {}
    fn ended(&self, _: RunOperation, _: &'static str, _: Duration) {}
}
