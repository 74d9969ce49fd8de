//! How long to wait before the next attempt: any time up to a limit that doubles, so that a thousand agents whose gateway
//! went away do not come back in the same moment.

use std::time::Duration;

use super::super::Times;

/// The next pause.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    silent: Duration,
    last: Duration,
    limit: Duration,
}

impl Backoff {
    pub(super) fn new(times: &Times) -> Self {
        Self {
            first: times.retry_first,
            silent: times.retry_silent,
            last: times.retry_last,
            limit: times.retry_first,
        }
    }

    /// The last connection was good.
    pub(super) fn reset(&mut self) {
        self.limit = self.first;
    }

    /// Nobody answered. An attempt costs nobody anything, and the path may be back any moment.
    pub(super) fn silent(&mut self) {
        self.limit = (self.limit * 2).clamp(self.first, self.silent);
    }

    /// Somebody answered, and said no.
    pub(super) fn answered(&mut self) {
        self.limit = (self.limit * 2).clamp(self.first, self.last);
    }

    /// Any time up to the limit.
    pub(super) fn pause(&self) -> Duration {
        self.limit.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_doubles_up_to_where_it_may_and_falls_back_after_a_good_connection() {
        let mut backoff = Backoff::new(&Times::default());
        let limits: Vec<u128> = (0..7)
            .map(|_| {
                backoff.answered();
                backoff.limit.as_millis()
            })
            .collect();
        assert_eq!(limits, [400, 800, 1600, 3200, 5000, 5000, 5000]);
        backoff.silent();
        assert_eq!(backoff.limit.as_millis(), 1000);
        backoff.reset();
        assert_eq!(backoff.limit.as_millis(), 200);
    }

    #[test]
    fn pauses_are_spread_over_everything_below_the_limit() {
        let mut backoff = Backoff::new(&Times::default());
        (0..9).for_each(|_| backoff.answered());
        let pauses: Vec<Duration> = (0..1000).map(|_| backoff.pause()).collect();
        assert!(pauses.iter().all(|it| *it <= Duration::from_secs(5)));
        let in_first_half = pauses.iter().filter(|it| **it < Duration::from_millis(2500)).count();
        assert!((300..700).contains(&in_first_half), "{in_first_half} of 1000");
    }
}
