//! Metrics of a route. They carry over from table to table: see [`super::Table::inherit`].

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::backend::ResponderKind;

/// Upper bounds of the buckets, in microseconds.
pub const BUCKETS: [u64; 14] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counters of one route.
#[derive(Debug, Default)]
pub struct RouteMetrics {
    requests: [AtomicU64; ResponderKind::ALL.len()],
    unknown_keys: AtomicU64,
    passed_through: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// Snapshot of a [`RouteMetrics`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Requests by responder.
    pub requests: [(ResponderKind, u64); ResponderKind::ALL.len()],
    /// Requests with a key that the table did not contain.
    pub unknown_keys: u64,
    /// Connections that were not HTTP.
    pub passed_through: u64,
    /// Cumulative counts per bucket of [`BUCKETS`]; the last is the total.
    pub cumulative: [u64; BUCKETS.len() + 1],
    /// Total duration.
    pub sum: Duration,
}

impl RouteMetrics {
    /// Records a completed request.
    pub fn record_request(&self, by: ResponderKind, took: Duration) {
        self.requests[by as usize].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|end| micros <= *end).unwrap_or(BUCKETS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Records a request with an unknown key.
    pub fn record_unknown_key(&self) {
        self.unknown_keys.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a connection that is not HTTP.
    pub fn record_passthrough(&self) {
        self.passed_through.fetch_add(1, Ordering::Relaxed);
    }

    /// The current values.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let mut within = [0; BUCKETS.len() + 1];
        let mut all = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            all += bucket.load(Ordering::Relaxed);
            within[at] = all;
        }
        MetricsSnapshot {
            requests: ResponderKind::ALL
                .map(|kind| (kind, self.requests[kind as usize].load(Ordering::Relaxed))),
            unknown_keys: self.unknown_keys.load(Ordering::Relaxed),
            passed_through: self.passed_through.load(Ordering::Relaxed),
            cumulative: within,
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}
