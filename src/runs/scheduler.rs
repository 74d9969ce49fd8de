//! Who may run terraform now: a limit on processes and on memory, and an order of urgency.
//!
//! A change that somebody waits for goes first, then deletions, then what is tried again, then checks for drift. Checks
//! never take the last place, so that a change does not wait for one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How urgent a run is. The first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Lane {
    /// Somebody changed something.
    Change,
    /// Somebody deleted something.
    Delete,
    /// An earlier run failed.
    Retry,
    /// To see whether reality still matches.
    Drift,
}

/// How much may run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Terraform processes.
    pub places: usize,
    /// Megabytes for all of them.
    pub memory: u64,
    /// Megabytes that one takes: terraform and its provider.
    pub each: u64,
}

impl Capacity {
    /// How many may run: memory counts as much as places, and one may always.
    pub fn most(&self) -> usize {
        let by_memory = usize::try_from(self.memory / self.each.max(1)).unwrap_or(usize::MAX);
        self.places.min(by_memory).max(1)
    }
}

/// The places, and who waits for one.
#[derive(Debug, Clone)]
pub(super) struct Lanes {
    most: usize,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    taken: usize,
    next: u64,
    waiting: BTreeMap<(Lane, u64), oneshot::Sender<Place>>,
}

/// A place to run in; dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Place {
    lanes: Option<Lanes>,
}

impl Lanes {
    /// With room for so much.
    pub(super) fn new(capacity: Capacity) -> Self {
        Self { most: capacity.most(), inner: Arc::default() }
    }

    /// Waits for a place.
    pub(super) async fn place(&self, lane: Lane) -> Place {
        let turn = {
            let mut inner = self.lock();
            let (sender, receiver) = oneshot::channel();
            let ticket = (lane, inner.next);
            inner.next += 1;
            inner.waiting.insert(ticket, sender);
            receiver
        };
        self.let_in();
        // The sender is dropped only together with the lanes themselves.
        turn.await.unwrap_or(Place { lanes: None })
    }

    /// Whether somebody of this lane would have to wait now.
    pub(super) fn is_full(&self, lane: Lane) -> bool {
        let inner = self.lock();
        inner.taken >= self.limit(lane) || inner.waiting.range(..=(lane, u64::MAX)).next().is_some()
    }

    /// How many wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn let_in(&self) {
        loop {
            let (sender, place) = {
                let mut inner = self.lock();
                let Some((&ticket, _)) = inner.waiting.first_key_value() else { return };
                if inner.taken >= self.limit(ticket.0) {
                    return;
                }
                let Some(sender) = inner.waiting.remove(&ticket) else { return };
                inner.taken += 1;
                (sender, Place { lanes: Some(self.clone()) })
            };
            // One that stopped waiting gives its place back by dropping it.
            drop(sender.send(place));
        }
    }

    /// Checks leave a place free, where there is more than one.
    fn limit(&self, lane: Lane) -> usize {
        if lane == Lane::Drift { self.most.saturating_sub(1).max(1) } else { self.most }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(lanes) = self.lanes.take() {
            lanes.lock().taken -= 1;
            lanes.let_in();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lanes(places: usize) -> Lanes {
        Lanes::new(Capacity { places, memory: 10_000, each: 100 })
    }

    #[test]
    fn memory_counts_as_much_as_places_and_one_may_always_run() {
        assert_eq!(Capacity { places: 8, memory: 3_000, each: 900 }.most(), 3);
        assert_eq!(Capacity { places: 2, memory: 30_000, each: 900 }.most(), 2);
        assert_eq!(Capacity { places: 8, memory: 100, each: 900 }.most(), 1);
    }

    #[tokio::test]
    async fn the_urgent_go_first_and_among_equals_the_first_who_came() {
        let lanes = lanes(1);
        let first = lanes.place(Lane::Change).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (name, lane) in
            [("drift", Lane::Drift), ("retry", Lane::Retry), ("a", Lane::Change), ("b", Lane::Change)]
        {
            let (own, order) = (lanes.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _place = own.place(lane).await;
                order.lock().unwrap().push(name);
            }));
            while lanes.waiting() < waiting.len() {
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
        let lanes = lanes(2);
        let _check = lanes.place(Lane::Drift).await;
        assert!(lanes.is_full(Lane::Drift));
        assert!(!lanes.is_full(Lane::Change));
        let _change = lanes.place(Lane::Change).await;
        assert!(lanes.is_full(Lane::Change));
    }

    #[tokio::test]
    async fn one_who_stops_waiting_takes_no_place() {
        let lanes = lanes(1);
        let first = lanes.place(Lane::Change).await;
        let gone = tokio::time::timeout(Duration::from_millis(10), lanes.place(Lane::Change)).await;
        assert!(gone.is_err());
        drop(first);
        let _second = lanes.place(Lane::Change).await;
    }
}
