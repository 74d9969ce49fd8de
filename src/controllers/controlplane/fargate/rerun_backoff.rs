//! When a workspace whose profile EKS lost is asked to run again. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// The pause after the first time; doubled each time.
const FIRST: Duration = Duration::from_mins(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_mins(30);

/// Whether to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poke {
    /// Now.
    Now,
    /// Not before.
    At(Timestamp),
}

/// Whether a workspace is asked to run again, which was asked so often before, the last time then.
pub(crate) fn poke(times: u32, last: Option<Timestamp>, now: Timestamp) -> Poke {
    let Some(last) = last else { return Poke::Now };
    let pause = FIRST.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1).min(10))).min(LONGEST);
    match last.saturating_add(pause) {
        Ok(then) if then > now => Poke::At(then),
        _ => Poke::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_grow_and_have_an_end() {
        let mut now = Timestamp::UNIX_EPOCH;
        assert_eq!(poke(0, None, now), Poke::Now);
        let mut pauses = Vec::new();
        for times in 1..9 {
            let Poke::At(then) = poke(times, Some(now), now) else { panic!("it is too early") };
            pauses.push(then.duration_since(now).as_secs() / 60);
            assert_eq!(poke(times, Some(now), then), Poke::Now);
            now = then;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    }
}
