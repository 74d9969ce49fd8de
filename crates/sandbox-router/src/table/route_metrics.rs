//! What a route has seen. It goes from table to table: see [`super::Table::inherit`].

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::backend::Kind;

/// Upper ends of the buckets, in microseconds.
pub const BUCKETS: [u64; 14] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counters of one route.
#[derive(Debug, Default)]
pub struct Meter {
    requests: [AtomicU64; Kind::ALL.len()],
    unknown_keys: AtomicU64,
    passed_through: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// What a [`Meter`] shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Requests by what answered.
    pub requests: [(Kind, u64); Kind::ALL.len()],
    /// Requests with a key that no table knew.
    pub unknown_keys: u64,
    /// Connections that were not HTTP.
    pub passed_through: u64,
    /// How many took at most as long as the bucket of the same place in [`BUCKETS`]; the last are all.
    pub within: [u64; BUCKETS.len() + 1],
    /// What all of them took together.
    pub sum: Duration,
}

impl Meter {
    /// A request that was answered to the end.
    pub fn answered(&self, by: Kind, took: Duration) {
        self.requests[by as usize].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|end| micros <= *end).unwrap_or(BUCKETS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A request with a key that the table does not know.
    pub fn unknown_key(&self) {
        self.unknown_keys.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection that is not HTTP.
    pub fn passed_through(&self) {
        self.passed_through.fetch_add(1, Ordering::Relaxed);
    }

    /// What it shows now.
    pub fn read(&self) -> Reading {
        let mut within = [0; BUCKETS.len() + 1];
        let mut all = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            all += bucket.load(Ordering::Relaxed);
            within[at] = all;
        }
        Reading {
            requests: Kind::ALL.map(|kind| (kind, self.requests[kind as usize].load(Ordering::Relaxed))),
            unknown_keys: self.unknown_keys.load(Ordering::Relaxed),
            passed_through: self.passed_through.load(Ordering::Relaxed),
            within,
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}
