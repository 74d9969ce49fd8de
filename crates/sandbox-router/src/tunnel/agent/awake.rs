//! Notices that the machine slept. While it does, the wall clock goes on and this process does not.

use std::time::{Duration, SystemTime};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::super::clock;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);
/// More than a busy machine may take for one look.
const JUMP: Duration = Duration::from_secs(4);

/// Counts how often the machine woke.
pub(super) struct Awake(watch::Sender<u64>);

impl Awake {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Looks, without end.
    pub(super) async fn watch(&self) {
        loop {
            let before = (clock::now(), Instant::now());
            sleep(LOOK).await;
            if is_jump(before, (clock::now(), Instant::now())) {
                self.0.send_modify(|count| *count += 1);
            }
        }
    }

    /// Returns when the machine wakes the next time.
    pub(super) async fn woke(&self) {
        let mut woken = self.0.subscribe();
        if woken.changed().await.is_err() {
            // Nobody looks any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Whether more time passed than looking takes: by either clock, because one of them stands still during sleep and the
/// other can be set.
fn is_jump(before: (SystemTime, Instant), after: (SystemTime, Instant)) -> bool {
    let by_wall = match after.0.duration_since(before.0) {
        Ok(passed) => passed > JUMP,
        Err(backwards) => backwards.duration() > JUMP,
    };
    by_wall || after.1 - before.1 > JUMP
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_look(500, 500, false)]
    #[case::a_busy_machine(3000, 3000, false)]
    #[case::a_laptop_that_slept(3_600_000, 500, true)]
    #[case::a_process_that_was_stopped(60_000, 60_000, true)]
    fn a_jump_of_the_clock_is(#[case] wall: u64, #[case] steady: u64, #[case] is: bool) {
        let before = (SystemTime::UNIX_EPOCH, Instant::now());
        let after = (before.0 + Duration::from_millis(wall), before.1 + Duration::from_millis(steady));
        assert_eq!(is_jump(before, after), is);
    }

    #[test]
    fn a_clock_that_was_set_back_far_is_a_jump_too() {
        let now = Instant::now();
        let before = (SystemTime::UNIX_EPOCH + Duration::from_hours(2), now);
        assert!(is_jump(before, (SystemTime::UNIX_EPOCH, now)));
    }
}
