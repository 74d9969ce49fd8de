//! Priority scheduler for run slots, limited by processes and memory.
//!
//! Order: changes by users, deletions, retries, drift checks; first come, first served within a priority. Drift checks
//! never take the last slot, so a change does not wait for a check.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Priority of a run, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum RunPriority {
    /// The inputs changed, or a plan was approved.
    Change,
    /// The object is being deleted.
    Delete,
    /// The previous run failed or was interrupted.
    Retry,
    /// Periodic drift check.
    Drift,
}

/// Limits for concurrent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCapacity {
    /// Maximum number of terraform processes.
    pub max_processes: usize,
    /// Memory for all runs, in megabytes.
    pub memory_mb: u64,
    /// Memory of one run (terraform and its providers), in megabytes.
    pub memory_per_run_mb: u64,
}

impl RunCapacity {
    /// Number of slots: the lower of both limits, and at least one.
    pub fn max_runs(&self) -> usize {
        let by_memory = usize::try_from(self.memory_mb / self.memory_per_run_mb.max(1)).unwrap_or(usize::MAX);
        self.max_processes.min(by_memory).max(1)
    }
}

/// The slots and the queue.
#[derive(Debug, Clone)]
pub(super) struct SlotScheduler {
    slots: usize,
    state: Arc<Mutex<SchedulerState>>,
}

#[derive(Debug, Default)]
struct SchedulerState {
    slots_in_use: usize,
    next_ticket: u64,
    waiting: BTreeMap<(RunPriority, u64), oneshot::Sender<RunSlot>>,
}

/// A slot. Dropping it grants the slot to the next run in the queue.
#[derive(Debug)]
pub(super) struct RunSlot {
    scheduler: Option<SlotScheduler>,
}

impl SlotScheduler {
    /// Creates a scheduler with the slots that `capacity` allows.
    pub(super) fn new(capacity: RunCapacity) -> Self {
        Self { slots: capacity.max_runs(), state: Arc::default() }
    }

    /// Waits for a slot.
    pub(super) async fn acquire_slot(&self, priority: RunPriority) -> RunSlot {
        let turn = {
            let mut inner = self.lock();
            let (sender, receiver) = oneshot::channel();
            let ticket = (priority, inner.next_ticket);
            inner.next_ticket += 1;
            inner.waiting.insert(ticket, sender);
            receiver
        };
        self.grant_slots();
        // The sender is dropped only together with the scheduler.
        turn.await.unwrap_or(RunSlot { scheduler: None })
    }

    /// Whether a run of this priority would have to wait for a slot.
    pub(super) fn would_wait(&self, priority: RunPriority) -> bool {
        let inner = self.lock();
        inner.slots_in_use >= self.slot_limit(priority)
            || inner.waiting.range(..=(priority, u64::MAX)).next().is_some()
    }

    /// Length of the queue.
    #[cfg(test)]
    fn waiting_count(&self) -> usize {
        self.lock().waiting.len()
    }

    fn grant_slots(&self) {
        loop {
            let (sender, slot) = {
                let mut inner = self.lock();
                let Some((&ticket, _)) = inner.waiting.first_key_value() else { return };
                if inner.slots_in_use >= self.slot_limit(ticket.0) {
                    return;
                }
                let Some(sender) = inner.waiting.remove(&ticket) else { return };
                inner.slots_in_use += 1;
                (sender, RunSlot { scheduler: Some(self.clone()) })
            };
            // If the waiter is gone, `send` returns the slot, and dropping it frees the slot.
            drop(sender.send(slot));
        }
    }

    /// Drift checks leave one slot free if there is more than one.
    fn slot_limit(&self, priority: RunPriority) -> usize {
        if priority == RunPriority::Drift { self.slots.saturating_sub(1).max(1) } else { self.slots }
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.lock().slots_in_use -= 1;
            scheduler.grant_slots();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn scheduler(slots: usize) -> SlotScheduler {
        SlotScheduler::new(RunCapacity { max_processes: slots, memory_mb: 10_000, memory_per_run_mb: 100 })
    }

    #[test]
    fn memory_counts_as_much_as_places_and_one_may_always_run() {
        assert_eq!(RunCapacity { max_processes: 8, memory_mb: 3_000, memory_per_run_mb: 900 }.max_runs(), 3);
        assert_eq!(RunCapacity { max_processes: 2, memory_mb: 30_000, memory_per_run_mb: 900 }.max_runs(), 2);
        assert_eq!(RunCapacity { max_processes: 8, memory_mb: 100, memory_per_run_mb: 900 }.max_runs(), 1);
    }

    #[tokio::test]
    async fn the_urgent_go_first_and_among_equals_the_first_who_came() {
        let lanes = scheduler(1);
        let first = lanes.acquire_slot(RunPriority::Change).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (name, priority) in [
            ("drift", RunPriority::Drift),
            ("retry", RunPriority::Retry),
            ("a", RunPriority::Change),
            ("b", RunPriority::Change),
        ] {
            let (own, order) = (lanes.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _place = own.acquire_slot(priority).await;
                order.lock().unwrap().push(name);
            }));
            while lanes.waiting_count() < waiting.len() {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["a", "b", "retry", "drift"]);
    }

    #[tokio::test]
    async fn checks_leave_a_place_for_changes() {
        let lanes = scheduler(2);
        let _check = lanes.acquire_slot(RunPriority::Drift).await;
        assert!(lanes.would_wait(RunPriority::Drift));
        assert!(!lanes.would_wait(RunPriority::Change));
        let _change = lanes.acquire_slot(RunPriority::Change).await;
        assert!(lanes.would_wait(RunPriority::Change));
    }

    #[tokio::test]
    async fn one_who_stops_waiting_takes_no_place() {
        let lanes = scheduler(1);
        let first = lanes.acquire_slot(RunPriority::Change).await;
        let gone =
            tokio::time::timeout(Duration::from_millis(10), lanes.acquire_slot(RunPriority::Change)).await;
        assert!(gone.is_err());
        drop(first);
        let _second = lanes.acquire_slot(RunPriority::Change).await;
    }
}
