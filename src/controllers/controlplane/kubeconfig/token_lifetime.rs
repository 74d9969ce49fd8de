//! When a token is replaced. Pure.
//!
//! A token in a Secret must always be good for some minutes more, because whoever reads it does not read it again at once;
//! and a Secret must not be written more often than that needs.

use jiff::{SignedDuration, Timestamp};

/// How long before its end a token is replaced. It must be good for three minutes always; two are for attempts that fail.
const EARLY: SignedDuration = SignedDuration::from_mins(5);
/// The same for tokens that do not live much longer than that: the credentials behind them end.
const TIGHT: SignedDuration = SignedDuration::from_secs(210);
/// The least pause between two tokens.
const LEAST: SignedDuration = SignedDuration::from_secs(30);

/// The life of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// When it was made.
    pub made: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

impl Life {
    /// From when on it is to be replaced.
    pub(crate) fn replace_at(&self) -> Timestamp {
        let life = self.expires.duration_since(self.made);
        let early = EARLY.min(life / 2).max(TIGHT.min(life - LEAST));
        let due = self.expires.saturating_sub(early).unwrap_or(self.made);
        due.max(self.made.saturating_add(LEAST).unwrap_or(self.made))
    }

    /// As it stands in an annotation: `made/expires`.
    pub(crate) fn to_text(self) -> String {
        format!("{}/{}", self.made, self.expires)
    }

    /// From an annotation. One that is no such text, or tells of a life that cannot be, is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (made, expires) = text.split_once('/')?;
        let life = Self { made: made.parse().ok()?, expires: expires.parse().ok()? };
        let is_sane = life.made <= life.expires
            && life.expires.duration_since(life.made) <= SignedDuration::from_mins(20);
        is_sane.then_some(life)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    /// A day in steps; each new token lives so long. Gives how often it was written and the least that was ever left.
    fn day(life_of: impl Fn(i64) -> i64) -> (usize, i64) {
        let mut life = Life { made: at(0), expires: at(life_of(0)) };
        let (mut written, mut least) = (1, i64::MAX);
        for second in (0..24 * 3600).step_by(5) {
            let now = at(second);
            if life.replace_at() <= now {
                life = Life { made: now, expires: at(second + life_of(second)) };
                written += 1;
            }
            least = least.min(life.expires.duration_since(now).as_secs());
        }
        (written, least)
    }

    #[test]
    fn p18_on_a_day_of_24_hours_a_token_is_always_good_for_three_minutes_and_not_written_more_than_needed() {
        let (written, least) = day(|_| 14 * 60);
        assert!(least >= 180, "{least}");
        // Every nine minutes, and not more often.
        assert!((155..=161).contains(&written), "{written}");
    }

    #[test]
    fn credentials_that_end_every_hour_do_not_make_tokens_that_are_too_short() {
        // The sessions are renewed five minutes before their end, so that a token lives for five minutes at least.
        let (written, least) = day(|second| (14 * 60).min(3600 - (second % 3300)).max(300));
        assert!(least >= 180, "{least}");
        assert!(written < 220, "{written}");
    }

    #[test]
    fn a_token_that_is_short_by_nature_is_no_hot_loop() {
        for life in [0, 1, 20, 60, 120, 240] {
            let (written, _) = day(|_| life);
            assert!(written <= 24 * 3600 / 30 + 1, "{life}: {written}");
        }
    }

    #[test]
    fn a_clock_that_fails_for_two_minutes_hurts_nobody() {
        let life = Life { made: at(0), expires: at(14 * 60) };
        let late = life.replace_at().saturating_add(Duration::from_mins(2)).unwrap();
        assert!(life.expires.duration_since(late) >= SignedDuration::from_mins(3));
    }

    #[test]
    fn the_annotation_is_read_back_and_garbage_is_no_life() {
        let life = Life { made: at(0), expires: at(840) };
        assert_eq!(Life::parse(&life.to_text()), Some(life));
        for text in [
            "",
            "x/y",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z/2036-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z/2026-01-01T00:00:00Z",
        ] {
            assert_eq!(Life::parse(text), None, "{text}");
        }
    }
}
