//! Progress of a run: completed and total operations, and the operations in progress.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::event::{Event, EventKind};

/// An operation in progress on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceActivity {
    /// Address of the resource.
    pub address: String,
    /// `create`, `update`, `delete`, …
    pub action: String,
    /// Time since its start.
    pub elapsed: Duration,
}

#[derive(Debug, Clone)]
struct ActivityStart {
    action: String,
    at: Option<Timestamp>,
    last_reported: Duration,
}

/// Progress of a run, accumulated from its events.
#[derive(Debug, Clone, Default)]
pub struct TerraformProgress {
    total: Option<u64>,
    planned: u64,
    done: u64,
    failed: u64,
    read: u64,
    in_flight: BTreeMap<String, ActivityStart>,
}

impl TerraformProgress {
    /// Creates a progress with a known total ([`super::ChangeSummary::operations`]).
    pub fn with_total(total: u64) -> Self {
        Self { total: Some(total), ..Self::default() }
    }

    /// Updates the progress with an event.
    pub fn observe(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::PlannedChange(change) => {
                self.planned += match change.action.as_str() {
                    "create" | "update" | "delete" => 1,
                    "replace" => 2,
                    _ => 0,
                };
            }
            EventKind::ChangeSummary { operation, counts } if operation.as_str() == "plan" => {
                self.total.get_or_insert_with(|| counts.operations());
            }
            EventKind::ApplyStart(hook) => {
                let started = ActivityStart {
                    action: hook.action.as_str().to_owned(),
                    at: event.timestamp.as_str().parse().ok(),
                    last_reported: Duration::ZERO,
                };
                self.in_flight.insert(hook.address.as_str().to_owned(), started);
            }
            EventKind::ApplyProgress(hook) => {
                if let Some(started) = self.in_flight.get_mut(hook.address.as_str()) {
                    started.last_reported = Duration::from_secs(hook.elapsed_seconds);
                }
            }
            EventKind::ApplyComplete(hook) => {
                self.in_flight.remove(hook.address.as_str());
                // Data sources that are read during the apply do not count in the total.
                self.done += u64::from(hook.action.as_str() != "read");
            }
            EventKind::ApplyErrored(hook) => {
                self.in_flight.remove(hook.address.as_str());
                self.failed += 1;
            }
            EventKind::RefreshComplete(_) => self.read += 1,
            _ => {}
        }
    }

    /// Completed operations.
    pub const fn done(&self) -> u64 {
        self.done
    }

    /// Failed operations.
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// Resources refreshed so far.
    pub const fn read(&self) -> u64 {
        self.read
    }

    /// Total operations: given by the caller, or else counted from plan events. Never less than the operations seen.
    pub fn total(&self) -> u64 {
        self.total.unwrap_or(self.planned).max(self.done + self.failed + self.in_flight.len() as u64)
    }

    /// Operations in progress, longest first.
    pub fn in_flight(&self, now: Timestamp) -> Vec<ResourceActivity> {
        let mut all: Vec<_> = self
            .in_flight
            .iter()
            .map(|(address, started)| ResourceActivity {
                address: address.clone(),
                action: started.action.clone(),
                elapsed: started.elapsed(now),
            })
            .collect();
        all.sort_by(|a, b| b.elapsed.cmp(&a.elapsed).then_with(|| a.address.cmp(&b.address)));
        all
    }

    /// The operation that has been in progress for the longest time.
    pub fn slowest(&self, now: Timestamp) -> Option<ResourceActivity> {
        self.in_flight(now).into_iter().next()
    }
}

impl ActivityStart {
    /// Time since the start by the local clock, or terraform's last reported time if that is larger (clock skew).
    fn elapsed(&self, now: Timestamp) -> Duration {
        let by_clock =
            self.at.and_then(|at| Duration::try_from(now.duration_since(at)).ok()).unwrap_or_default();
        by_clock.max(self.last_reported)
    }
}
