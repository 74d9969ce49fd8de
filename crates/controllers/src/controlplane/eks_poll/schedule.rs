//! Schedule of the EKS queries. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::EksObservation;

/// Poll interval while a resource is in transition.
const TRANSITION_INTERVAL: Duration = Duration::from_secs(10);
/// First delay after a failed query; doubled each time.
const INITIAL_BACKOFF: Duration = Duration::from_secs(5);

/// Inputs of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollInputs<'a> {
    /// Fingerprint of the finished runs.
    pub run_fingerprint: &'a str,
    /// Regular poll interval.
    pub interval: Duration,
    /// A resource is in transition.
    pub in_transition: bool,
    /// When another token is needed.
    pub token_due: Option<Timestamp>,
}

/// Time of the next query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPoll {
    /// At once.
    Now,
    /// Not before this time.
    At(Timestamp),
}

/// Computes the time of the next query.
pub fn next_poll(observation: &EksObservation, needs: PollInputs<'_>, now: Timestamp) -> NextPoll {
    let Some((asked, stamp)) = &observation.last_query else { return NextPoll::Now };
    let after = |pause: Duration| asked.saturating_add(pause).unwrap_or(*asked);
    let usual = match (observation.failures, needs.in_transition) {
        (0, false) => after(needs.interval),
        (0, true) => after(needs.interval.min(TRANSITION_INTERVAL)),
        (failures, _) => {
            let pause =
                INITIAL_BACKOFF.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(10)));
            // A finished run does not shorten the backoff: EKS is still failing.
            return poll_at(after(pause.min(needs.interval)), now);
        }
    };
    if stamp != needs.run_fingerprint {
        return NextPoll::Now;
    }
    poll_at(needs.token_due.map_or(usual, |token| token.min(usual)), now)
}

fn poll_at(then: Timestamp, now: Timestamp) -> NextPoll {
    if then <= now { NextPoll::Now } else { NextPoll::At(then) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn needs(stamp: &str) -> PollInputs<'_> {
        PollInputs {
            run_fingerprint: stamp,
            interval: Duration::from_mins(2),
            in_transition: false,
            token_due: None,
        }
    }

    fn asked(failures: u32) -> EksObservation {
        EksObservation {
            last_query: Some((second(1000), "s".to_owned())),
            failures,
            ..EksObservation::default()
        }
    }

    #[test]
    fn the_first_time_and_after_each_run_it_is_asked_at_once() {
        assert_eq!(next_poll(&EksObservation::default(), needs("s"), second(0)), NextPoll::Now);
        assert_eq!(next_poll(&asked(0), needs("other"), second(1001)), NextPoll::Now);
    }

    #[test]
    fn else_every_two_minutes_and_more_often_while_something_is_on_its_way() {
        assert_eq!(next_poll(&asked(0), needs("s"), second(1001)), NextPoll::At(second(1120)));
        assert_eq!(next_poll(&asked(0), needs("s"), second(1120)), NextPoll::Now);
        let restless = PollInputs { in_transition: true, ..needs("s") };
        assert_eq!(next_poll(&asked(0), restless, second(1001)), NextPoll::At(second(1010)));
    }

    #[test]
    fn no_answer_is_followed_by_growing_pauses_whatever_happens() {
        assert_eq!(next_poll(&asked(1), needs("other"), second(1001)), NextPoll::At(second(1005)));
        assert_eq!(next_poll(&asked(3), needs("s"), second(1001)), NextPoll::At(second(1020)));
        assert_eq!(next_poll(&asked(30), needs("s"), second(1001)), NextPoll::At(second(1120)));
    }

    #[test]
    fn a_token_that_is_needed_does_not_wait_for_the_interval() {
        let token = PollInputs { token_due: Some(second(1030)), ..needs("s") };
        assert_eq!(next_poll(&asked(0), token, second(1001)), NextPoll::At(second(1030)));
        assert_eq!(next_poll(&asked(0), token, second(1031)), NextPoll::Now);
        assert_eq!(next_poll(&asked(1), token, second(1031)), NextPoll::Now);
        assert_eq!(next_poll(&asked(4), token, second(1031)), NextPoll::At(second(1040)));
    }
}
