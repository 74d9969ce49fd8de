//! Backoff for rerunning a workspace whose profile is missing in EKS. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// Delay after the first rerun; doubled each time.
const INITIAL_BACKOFF: Duration = Duration::from_mins(1);
/// Maximum delay.
const MAX_BACKOFF: Duration = Duration::from_mins(30);

/// When to request the next rerun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RerunSchedule {
    /// Now.
    Now,
    /// Not before this time.
    At(Timestamp),
}

/// The next rerun after `times` requests, the last one at `last`.
pub(crate) fn next_rerun(times: u32, last: Option<Timestamp>, now: Timestamp) -> RerunSchedule {
    let Some(last) = last else { return RerunSchedule::Now };
    let pause = INITIAL_BACKOFF
        .saturating_mul(2_u32.saturating_pow(times.saturating_sub(1).min(10)))
        .min(MAX_BACKOFF);
    match last.saturating_add(pause) {
        Ok(then) if then > now => RerunSchedule::At(then),
        _ => RerunSchedule::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_grow_and_have_an_end() {
        let mut now = Timestamp::UNIX_EPOCH;
        assert_eq!(next_rerun(0, None, now), RerunSchedule::Now);
        let mut pauses = Vec::new();
        for times in 1..9 {
            let RerunSchedule::At(then) = next_rerun(times, Some(now), now) else {
                panic!("it is too early")
            };
            pauses.push(then.duration_since(now).as_secs() / 60);
            assert_eq!(next_rerun(times, Some(now), then), RerunSchedule::Now);
            now = then;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    }
}
