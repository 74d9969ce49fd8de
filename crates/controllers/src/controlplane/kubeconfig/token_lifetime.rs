//! Rotation schedule of the token in the kubeconfig Secret. Pure.
//!
//! The token must stay valid for some minutes at any time, because clients cache it after reading the Secret; and the Secret
//! must not be written more often than necessary.

use jiff::{SignedDuration, Timestamp};

/// Replacement time before expiry. Three minutes of validity are guaranteed; two are reserved for failed attempts.
const REPLACE_BEFORE_EXPIRY: SignedDuration = SignedDuration::from_mins(5);
/// Replacement time before expiry of a short-lived token, whose underlying credentials expire.
const REPLACE_BEFORE_EXPIRY_SHORT: SignedDuration = SignedDuration::from_secs(210);
/// Minimum time between two tokens.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// The validity period of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenLifetime {
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl TokenLifetime {
    /// When it is due for replacement.
    pub(crate) fn replace_at(&self) -> Timestamp {
        let life = self.expires_at.duration_since(self.issued_at);
        let early =
            REPLACE_BEFORE_EXPIRY.min(life / 2).max(REPLACE_BEFORE_EXPIRY_SHORT.min(life - MIN_INTERVAL));
        let due = self.expires_at.saturating_sub(early).unwrap_or(self.issued_at);
        due.max(self.issued_at.saturating_add(MIN_INTERVAL).unwrap_or(self.issued_at))
    }

    /// Annotation value: `issued/expires`.
    pub(crate) fn to_annotation(self) -> String {
        format!("{}/{}", self.issued_at, self.expires_at)
    }

    /// Parses an annotation value. `None` if it is malformed or the period is implausible.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (made, expires) = text.split_once('/')?;
        let life = Self { issued_at: made.parse().ok()?, expires_at: expires.parse().ok()? };
        let is_sane = life.issued_at <= life.expires_at
            && life.expires_at.duration_since(life.issued_at) <= SignedDuration::from_mins(20);
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

    /// Simulates 24 hours; `life_of` is the lifetime of a token issued at a second. Returns the number of writes and the least
    /// remaining validity in seconds.
    fn simulate_day(life_of: impl Fn(i64) -> i64) -> (usize, i64) {
        let mut life = TokenLifetime { issued_at: at(0), expires_at: at(life_of(0)) };
        let (mut written, mut least) = (1, i64::MAX);
        for second in (0..24 * 3600).step_by(5) {
            let now = at(second);
            if life.replace_at() <= now {
                life = TokenLifetime { issued_at: now, expires_at: at(second + life_of(second)) };
                written += 1;
            }
            least = least.min(life.expires_at.duration_since(now).as_secs());
        }
        (written, least)
    }

    #[test]
    fn p18_on_a_day_of_24_hours_a_token_is_always_good_for_three_minutes_and_not_written_more_than_needed() {
        let (written, least) = simulate_day(|_| 14 * 60);
        assert!(least >= 180, "{least}");
        // Every nine minutes, and not more often.
        assert!((155..=161).contains(&written), "{written}");
    }

    #[test]
    fn credentials_that_end_every_hour_do_not_make_tokens_that_are_too_short() {
        // The sessions are renewed five minutes before their end, so that a token lives for five minutes at least.
        let (written, least) = simulate_day(|second| (14 * 60).min(3600 - (second % 3300)).max(300));
        assert!(least >= 180, "{least}");
        assert!(written < 220, "{written}");
    }

    #[test]
    fn a_token_that_is_short_by_nature_is_no_hot_loop() {
        for life in [0, 1, 20, 60, 120, 240] {
            let (written, _) = simulate_day(|_| life);
            assert!(written <= 24 * 3600 / 30 + 1, "{life}: {written}");
        }
    }

    #[test]
    fn a_clock_that_fails_for_two_minutes_hurts_nobody() {
        let life = TokenLifetime { issued_at: at(0), expires_at: at(14 * 60) };
        let late = life.replace_at().saturating_add(Duration::from_mins(2)).unwrap();
        assert!(life.expires_at.duration_since(late) >= SignedDuration::from_mins(3));
    }

    #[test]
    fn the_annotation_is_read_back_and_garbage_is_no_life() {
        let life = TokenLifetime { issued_at: at(0), expires_at: at(840) };
        assert_eq!(TokenLifetime::parse(&life.to_annotation()), Some(life));
        for text in [
            "",
            "x/y",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z/2036-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z/2026-01-01T00:00:00Z",
        ] {
            assert_eq!(TokenLifetime::parse(text), None, "{text}");
        }
    }
}
