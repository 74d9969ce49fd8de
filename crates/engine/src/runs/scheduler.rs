//! Run slots, limited by processes and memory, and shared by namespaces as [`super::fair_queue`] decides.
//!
//! Order within a namespace: changes by users, deletions, retries, drift checks; first come, first served within a priority. Drift
//! checks never take the last slot, so a change does not wait for a check.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::fair_queue::{FairQueue, NamespaceShares};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCapacity {
    /// Maximum number of terraform processes.
    pub max_processes: usize,
    /// Memory for all runs, in megabytes.
    pub memory_mb: u64,
    /// Memory of one run (terraform and its providers), in megabytes.
    pub memory_per_run_mb: u64,
    /// How namespaces share the slots.
    pub shares: NamespaceShares,
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
    queue: Arc<Mutex<FairQueue<oneshot::Sender<RunSlot>>>>,
}

/// A slot. Dropping it grants the slot to the next run in the queue.
#[derive(Debug)]
pub(super) struct RunSlot {
    /// The scheduler and the namespace.
    held: Option<(SlotScheduler, String)>,
}

impl SlotScheduler {
    /// Creates a scheduler with the slots that `capacity` allows.
    pub(super) fn new(capacity: RunCapacity) -> Self {
        let queue = FairQueue::new(capacity.max_runs(), capacity.shares);
        Self { queue: Arc::new(Mutex::new(queue)) }
    }

    /// Waits for a slot.
    pub(super) async fn acquire_slot(&self, namespace: &str, priority: RunPriority) -> RunSlot {
        let turn = {
            let (sender, receiver) = oneshot::channel();
            self.lock().push(namespace, priority, sender);
            receiver
        };
        self.grant_slots();
        // The sender is dropped only together with the scheduler.
        turn.await.unwrap_or(RunSlot { held: None })
    }

    /// Whether a run of this namespace and priority would have to wait for a slot.
    pub(super) fn would_wait(&self, namespace: &str, priority: RunPriority) -> bool {
        self.lock().would_wait(namespace, priority)
    }

    /// Length of the queue.
    #[cfg(test)]
    fn waiting_count(&self) -> usize {
        self.lock().waiting_count()
    }

    fn grant_slots(&self) {
        loop {
            let granted = self.lock().pop();
            let Some((namespace, sender)) = granted else { return };
            // If the waiter is gone, `send` returns the slot, and dropping it frees the slot.
            drop(sender.send(RunSlot { held: Some((self.clone(), namespace)) }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<oneshot::Sender<RunSlot>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if let Some((scheduler, namespace)) = self.held.take() {
            scheduler.lock().release(&namespace);
            scheduler.grant_slots();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn scheduler(slots: usize) -> SlotScheduler {
        SlotScheduler::new(capacity(slots, 10_000, 100))
    }

    fn capacity(max_processes: usize, memory_mb: u64, memory_per_run_mb: u64) -> RunCapacity {
        RunCapacity { max_processes, memory_mb, memory_per_run_mb, shares: NamespaceShares::default() }
    }

    #[test]
    fn memory_counts_as_much_as_places_and_one_may_always_run() {
        assert_eq!(capacity(8, 3_000, 900).max_runs(), 3);
        assert_eq!(capacity(2, 30_000, 900).max_runs(), 2);
        assert_eq!(capacity(8, 100, 900).max_runs(), 1);
    }

    #[tokio::test]
    async fn the_urgent_go_first_and_among_equals_the_first_who_came() {
        let lanes = scheduler(1);
        let first = lanes.acquire_slot("team", RunPriority::Change).await;
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
                let _place = own.acquire_slot("team", priority).await;
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
        let _check = lanes.acquire_slot("team", RunPriority::Drift).await;
        assert!(lanes.would_wait("team", RunPriority::Drift));
        assert!(!lanes.would_wait("team", RunPriority::Change));
        let _change = lanes.acquire_slot("team", RunPriority::Change).await;
        assert!(lanes.would_wait("team", RunPriority::Change));
    }

    #[tokio::test]
    async fn one_who_stops_waiting_takes_no_place() {
        let lanes = scheduler(1);
        let first = lanes.acquire_slot("team", RunPriority::Change).await;
        let gone =
            tokio::time::timeout(Duration::from_millis(10), lanes.acquire_slot("team", RunPriority::Change))
                .await;
        assert!(gone.is_err());
        drop(first);
        let _second = lanes.acquire_slot("team", RunPriority::Change).await;
    }
}
