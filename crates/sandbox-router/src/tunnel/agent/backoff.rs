//! Exponential backoff with full jitter, so that a thousand agents of a lost gateway do not reconnect at the same
//! moment.

use std::time::Duration;

use super::super::TunnelTimeouts;

/// Backoff state.
#[derive(Debug)]
pub(super) struct Backoff {
    initial: Duration,
    max_unreachable: Duration,
    max_refused: Duration,
    limit: Duration,
}

impl Backoff {
    pub(super) fn new(times: &TunnelTimeouts) -> Self {
        Self {
            initial: times.backoff_initial,
            max_unreachable: times.backoff_max_unreachable,
            max_refused: times.backoff_max_refused,
            limit: times.backoff_initial,
        }
    }

    /// After a successful connection.
    pub(super) fn reset(&mut self) {
        self.limit = self.initial;
    }

    /// The gateway is unreachable. Attempts are cheap, and the path may be back any moment, so the limit stays low.
    pub(super) fn record_unreachable(&mut self) {
        self.limit = (self.limit * 2).clamp(self.initial, self.max_unreachable);
    }

    /// The gateway refused the connection.
    pub(super) fn record_refused(&mut self) {
        self.limit = (self.limit * 2).clamp(self.initial, self.max_refused);
    }

    /// A random delay up to the limit.
    pub(super) fn next_delay(&self) -> Duration {
        self.limit.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_doubles_up_to_where_it_may_and_falls_back_after_a_good_connection() {
        let mut backoff = Backoff::new(&TunnelTimeouts::default());
        let limits: Vec<u128> = (0..7)
            .map(|_| {
                backoff.record_refused();
                backoff.limit.as_millis()
            })
            .collect();
        assert_eq!(limits, [400, 800, 1600, 3200, 5000, 5000, 5000]);
        backoff.record_unreachable();
        assert_eq!(backoff.limit.as_millis(), 1000);
        backoff.reset();
        assert_eq!(backoff.limit.as_millis(), 200);
    }

    #[test]
    fn pauses_are_spread_over_everything_below_the_limit() {
        let mut backoff = Backoff::new(&TunnelTimeouts::default());
        (0..9).for_each(|_| backoff.record_refused());
        let pauses: Vec<Duration> = (0..1000).map(|_| backoff.next_delay()).collect();
        assert!(pauses.iter().all(|it| *it <= Duration::from_secs(5)));
        let in_first_half = pauses.iter().filter(|it| **it < Duration::from_millis(2500)).count();
        assert!((300..700).contains(&in_first_half), "{in_first_half} of 1000");
    }
}
