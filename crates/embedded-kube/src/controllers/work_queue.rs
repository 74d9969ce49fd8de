//! Keys that wait for their turn: each at most once, one run of a key at a time, failures with growing pauses.
//!
//! Pure: the caller says what time it is.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a run of a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing left to do until something changes.
    Done,
    /// Look again after this time, whatever happens.
    Again(Duration),
    /// Try again, later each time.
    Failed,
}

#[derive(Debug, Default)]
struct Slot {
    due: Option<Instant>,
    running: bool,
    changed: bool,
    failures: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Queue<K> {
    slots: HashMap<K, Slot>,
    agenda: BTreeSet<(Instant, K)>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { slots: HashMap::new(), agenda: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + Hash> Queue<K> {
    /// Something happened to a key: its turn comes now, or when its present run is over.
    pub fn add(&mut self, key: K, now: Instant) {
        let slot = self.slots.entry(key.clone()).or_default();
        if slot.running {
            slot.changed = true;
        } else {
            schedule(&mut self.agenda, slot, key, now);
        }
    }

    /// The next key whose turn has come; [`Queue::finish`] must follow.
    pub fn start(&mut self, now: Instant) -> Option<K> {
        if self.agenda.first()?.0 > now {
            return None;
        }
        let (_, key) = self.agenda.pop_first()?;
        let slot = self.slots.entry(key.clone()).or_default();
        slot.due = None;
        slot.running = true;
        Some(key)
    }

    /// A run is over.
    pub fn finish(&mut self, key: K, ending: Ending, now: Instant) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.running = false;
        let changed = std::mem::take(&mut slot.changed);
        let pause = match ending {
            Ending::Failed => {
                slot.failures = slot.failures.saturating_add(1);
                Some(pause_after(slot.failures))
            }
            Ending::Done => {
                slot.failures = 0;
                None
            }
            Ending::Again(after) => {
                slot.failures = 0;
                Some(after)
            }
        };
        match (changed, pause) {
            (true, _) => schedule(&mut self.agenda, slot, key, now),
            (false, Some(pause)) => schedule(&mut self.agenda, slot, key, now + pause),
            (false, None) => {
                self.slots.remove(&key);
            }
        }
    }

    /// When the next turn comes.
    pub fn next_due(&self) -> Option<Instant> {
        self.agenda.first().map(|(due, _)| *due)
    }
}

fn schedule<K: Clone + Ord>(agenda: &mut BTreeSet<(Instant, K)>, slot: &mut Slot, key: K, due: Instant) {
    if let Some(earlier) = slot.due {
        if earlier <= due {
            return;
        }
        agenda.remove(&(earlier, key.clone()));
    }
    slot.due = Some(due);
    agenda.insert((due, key));
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_added_twice_runs_once() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        queue.add("a", now);
        assert_eq!(queue.start(now), Some("a"));
        assert_eq!(queue.start(now), None);
    }

    #[test]
    fn a_change_during_a_run_leads_to_one_more_run_and_never_to_two_at_once() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        assert_eq!(queue.start(now), Some("a"));
        queue.add("a", now);
        queue.add("a", now);
        assert_eq!(queue.start(now), None);
        queue.finish("a", Ending::Done, now);
        assert_eq!(queue.start(now), Some("a"));
        queue.finish("a", Ending::Done, now);
        assert_eq!(queue.next_due(), None);
        assert!(queue.slots.is_empty());
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_success_forgets_them() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        for pause in [5, 10, 20] {
            let due = queue.next_due().unwrap();
            assert_eq!(queue.start(due), Some("a"));
            queue.finish("a", Ending::Failed, due);
            assert_eq!(queue.next_due(), Some(due + Duration::from_millis(pause)));
        }
        let due = queue.next_due().unwrap();
        queue.start(due);
        queue.finish("a", Ending::Again(Duration::from_secs(1)), due);
        let due = queue.next_due().unwrap();
        queue.start(due);
        queue.finish("a", Ending::Failed, due);
        assert_eq!(queue.next_due(), Some(due + Duration::from_millis(5)));
        assert_eq!(pause_after(200), LONGEST_PAUSE);
    }

    #[test]
    fn a_change_brings_a_late_turn_forward() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now + Duration::from_mins(1));
        assert_eq!(queue.start(now), None);
        queue.add("a", now);
        assert_eq!(queue.start(now), Some("a"));
        assert_eq!(queue.next_due(), None);
    }
}
