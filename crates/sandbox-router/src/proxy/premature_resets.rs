//! HTTP/2 callers that reset their requests before these are answered: each one costs a pod a request, and the caller
//! nothing (rapid reset). The time is an argument.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::ProxyLimits;

/// The budget of one connection.
#[derive(Debug)]
pub(super) struct ResetBudget {
    max: u32,
    interval: Duration,
    since: Option<Instant>,
    count: u32,
}

impl ResetBudget {
    pub(super) fn new(limits: &ProxyLimits) -> Self {
        Self { max: limits.max_premature_resets, interval: limits.reset_interval, since: None, count: 0 }
    }

    /// Counts a reset. Returns whether the budget is exceeded.
    pub(super) fn record(&mut self, now: Instant) -> bool {
        let is_same = |since: Instant| now.saturating_duration_since(since) < self.interval;
        if !self.since.is_some_and(is_same) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count > self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m5_a_budget_of_resets_lasts_for_an_interval() {
        let limits = ProxyLimits { max_premature_resets: 3, ..ProxyLimits::default() };
        let (mut budget, now) = (ResetBudget::new(&limits), Instant::now());
        let record = |budget: &mut ResetBudget, at: Duration| budget.record(now + at);
        let within = limits.reset_interval.saturating_sub(Duration::from_millis(1));
        let exceeded = [Duration::ZERO, Duration::ZERO, within, within].map(|at| record(&mut budget, at));
        assert_eq!(exceeded, [false, false, false, true]);
        let next = [limits.reset_interval; 4].map(|at| record(&mut budget, at));
        assert_eq!(next, [false, false, false, true]);
    }
}
