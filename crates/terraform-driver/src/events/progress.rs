//! How far an apply is: done of total, and what it is waiting for.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::event::{Event, Kind};

/// Work on one object that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The object.
    pub address: String,
    /// `create`, `update`, `delete`, …
    pub action: String,
    /// Since its start.
    pub elapsed: Duration,
}

#[derive(Debug, Clone)]
struct Started {
    action: String,
    at: Option<Timestamp>,
    last_heard: Duration,
}

/// A fold over the events of a run.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    total: Option<u64>,
    planned: u64,
    done: u64,
    failed: u64,
    read: u64,
    in_flight: BTreeMap<String, Started>,
}

impl Progress {
    /// With the number of operations that the plan holds ([`super::ChangeSummary::operations`]).
    pub fn with_total(total: u64) -> Self {
        Self { total: Some(total), ..Self::default() }
    }

    /// Takes the next event in.
    pub fn observe(&mut self, event: &Event<'_>) {
        match &event.kind {
            Kind::PlannedChange(change) => {
                self.planned += match change.action.as_str() {
                    "create" | "update" | "delete" => 1,
                    "replace" => 2,
                    _ => 0,
                };
            }
            Kind::ChangeSummary { operation, counts } if operation.as_str() == "plan" => {
                self.total.get_or_insert_with(|| counts.operations());
            }
            Kind::ApplyStart(hook) => {
                let started = Started {
                    action: hook.action.as_str().to_owned(),
                    at: event.timestamp.as_str().parse().ok(),
                    last_heard: Duration::ZERO,
                };
                self.in_flight.insert(hook.address.as_str().to_owned(), started);
            }
            Kind::ApplyProgress(hook) => {
                if let Some(started) = self.in_flight.get_mut(hook.address.as_str()) {
                    started.last_heard = Duration::from_secs(hook.elapsed_seconds);
                }
            }
            Kind::ApplyComplete(hook) => {
                self.in_flight.remove(hook.address.as_str());
                // Data sources that are read during the apply are no part of the total.
                self.done += u64::from(hook.action.as_str() != "read");
            }
            Kind::ApplyErrored(hook) => {
                self.in_flight.remove(hook.address.as_str());
                self.failed += 1;
            }
            Kind::RefreshComplete(_) => self.read += 1,
            _ => {}
        }
    }

    /// Operations that ended well.
    pub const fn done(&self) -> u64 {
        self.done
    }

    /// Operations that failed.
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// Objects read so far, during a plan.
    pub const fn read(&self) -> u64 {
        self.read
    }

    /// All operations: what the caller said, else what the plan events said. Never less than what has happened.
    pub fn total(&self) -> u64 {
        self.total.unwrap_or(self.planned).max(self.done + self.failed + self.in_flight.len() as u64)
    }

    /// What is being worked on, the longest first.
    pub fn in_flight(&self, now: Timestamp) -> Vec<Activity> {
        let mut all: Vec<_> = self
            .in_flight
            .iter()
            .map(|(address, started)| Activity {
                address: address.clone(),
                action: started.action.clone(),
                elapsed: started.elapsed(now),
            })
            .collect();
        all.sort_by(|a, b| b.elapsed.cmp(&a.elapsed).then_with(|| a.address.cmp(&b.address)));
        all
    }

    /// What has been worked on for the longest time.
    pub fn slowest(&self, now: Timestamp) -> Option<Activity> {
        self.in_flight(now).into_iter().next()
    }
}

impl Started {
    /// By our clock since the start was written; terraform's own figure is ten seconds old at worst, and is the
    /// better one when the clocks disagree.
    fn elapsed(&self, now: Timestamp) -> Duration {
        let by_clock =
            self.at.and_then(|at| Duration::try_from(now.duration_since(at)).ok()).unwrap_or_default();
        by_clock.max(self.last_heard)
    }
}
