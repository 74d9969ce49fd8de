//! Work queue: each key is queued at most once and processed by one run at a time; failures back off exponentially.
//!
//! Pure: the caller passes the current time.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

const INITIAL_BACKOFF: Duration = Duration::from_millis(5);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// Nothing to do until the next change.
    Done,
    /// Run again after this time.
    RequeueAfter(Duration),
    /// Retry with backoff.
    Failed,
}

#[derive(Debug, Default)]
struct KeyState {
    due: Option<Instant>,
    running: bool,
    changed: bool,
    failures: u32,
}

/// The work queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    keys: HashMap<K, KeyState>,
    due_times: BTreeSet<(Instant, K)>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self { keys: HashMap::new(), due_times: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + Hash> WorkQueue<K> {
    /// Queues a key: it is due now, or when its current run has finished.
    pub fn add(&mut self, key: K, now: Instant) {
        let slot = self.keys.entry(key.clone()).or_default();
        if slot.running {
            slot.changed = true;
        } else {
            schedule(&mut self.due_times, slot, key, now);
        }
    }

    /// Takes the next due key; [`WorkQueue::finish`] must follow.
    pub fn start(&mut self, now: Instant) -> Option<K> {
        if self.due_times.first()?.0 > now {
            return None;
        }
        let (_, key) = self.due_times.pop_first()?;
        let slot = self.keys.entry(key.clone()).or_default();
        slot.due = None;
        slot.running = true;
        Some(key)
    }

    /// Finishes a run.
    pub fn finish(&mut self, key: K, ending: RunOutcome, now: Instant) {
        let Some(slot) = self.keys.get_mut(&key) else { return };
        slot.running = false;
        let changed = std::mem::take(&mut slot.changed);
        let pause = match ending {
            RunOutcome::Failed => {
                slot.failures = slot.failures.saturating_add(1);
                Some(backoff(slot.failures))
            }
            RunOutcome::Done => {
                slot.failures = 0;
                None
            }
            RunOutcome::RequeueAfter(after) => {
                slot.failures = 0;
                Some(after)
            }
        };
        match (changed, pause) {
            (true, _) => schedule(&mut self.due_times, slot, key, now),
            (false, Some(pause)) => schedule(&mut self.due_times, slot, key, now + pause),
            (false, None) => {
                self.keys.remove(&key);
            }
        }
    }

    /// When the next key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due_times.first().map(|(due, _)| *due)
    }
}

fn schedule<K: Clone + Ord>(agenda: &mut BTreeSet<(Instant, K)>, slot: &mut KeyState, key: K, due: Instant) {
    if let Some(earlier) = slot.due {
        if earlier <= due {
            return;
        }
        agenda.remove(&(earlier, key.clone()));
    }
    slot.due = Some(due);
    agenda.insert((due, key));
}

fn backoff(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    INITIAL_BACKOFF.saturating_mul(doubled).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_added_twice_runs_once() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        queue.add("a", now);
        queue.add("a", now);
        assert_eq!(queue.start(now), Some("a"));
        assert_eq!(queue.start(now), None);
    }

    #[test]
    fn a_change_during_a_run_leads_to_one_more_run_and_never_to_two_at_once() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        queue.add("a", now);
        assert_eq!(queue.start(now), Some("a"));
        queue.add("a", now);
        queue.add("a", now);
        assert_eq!(queue.start(now), None);
        queue.finish("a", RunOutcome::Done, now);
        assert_eq!(queue.start(now), Some("a"));
        queue.finish("a", RunOutcome::Done, now);
        assert_eq!(queue.next_due(), None);
        assert!(queue.keys.is_empty());
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_success_forgets_them() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        queue.add("a", now);
        for pause in [5, 10, 20] {
            let due = queue.next_due().unwrap();
            assert_eq!(queue.start(due), Some("a"));
            queue.finish("a", RunOutcome::Failed, due);
            assert_eq!(queue.next_due(), Some(due + Duration::from_millis(pause)));
        }
        let due = queue.next_due().unwrap();
        queue.start(due);
        queue.finish("a", RunOutcome::RequeueAfter(Duration::from_secs(1)), due);
        let due = queue.next_due().unwrap();
        queue.start(due);
        queue.finish("a", RunOutcome::Failed, due);
        assert_eq!(queue.next_due(), Some(due + Duration::from_millis(5)));
        assert_eq!(backoff(200), MAX_BACKOFF);
    }

    #[test]
    fn a_change_brings_a_late_turn_forward() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        queue.add("a", now + Duration::from_mins(1));
        assert_eq!(queue.start(now), None);
        queue.add("a", now);
        assert_eq!(queue.start(now), Some("a"));
        assert_eq!(queue.next_due(), None);
    }
}
