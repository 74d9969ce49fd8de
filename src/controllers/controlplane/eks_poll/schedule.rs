//! When the world is asked again. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::Look;

/// How soon something on its way is looked at again.
const RESTLESS: Duration = Duration::from_secs(10);
/// How soon the first time after no answer; doubled each time.
const AFTER_TROUBLE: Duration = Duration::from_secs(5);

/// What a reconcile needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs<'a> {
    /// The occasion.
    pub stamp: &'a str,
    /// How often to ask anyway.
    pub interval: Duration,
    /// Something is on its way that is waited for.
    pub restless: bool,
    /// From when on another token is needed.
    pub token_at: Option<Timestamp>,
}

/// When to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// Not before.
    At(Timestamp),
}

/// When to ask next.
pub fn next(look: &Look, needs: Needs<'_>, now: Timestamp) -> When {
    let Some((asked, stamp)) = &look.asked else { return When::Now };
    let after = |pause: Duration| asked.saturating_add(pause).unwrap_or(*asked);
    let usual = match (look.failures, needs.restless) {
        (0, false) => after(needs.interval),
        (0, true) => after(needs.interval.min(RESTLESS)),
        (failures, _) => {
            let pause =
                AFTER_TROUBLE.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(10)));
            // What happened meanwhile does not make EKS answer.
            return at(after(pause.min(needs.interval)), now);
        }
    };
    if stamp != needs.stamp {
        return When::Now;
    }
    at(needs.token_at.map_or(usual, |token| token.min(usual)), now)
}

fn at(then: Timestamp, now: Timestamp) -> When {
    if then <= now { When::Now } else { When::At(then) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn needs(stamp: &str) -> Needs<'_> {
        Needs { stamp, interval: Duration::from_mins(2), restless: false, token_at: None }
    }

    fn asked(failures: u32) -> Look {
        Look { asked: Some((second(1000), "s".to_owned())), failures, ..Look::default() }
    }

    #[test]
    fn the_first_time_and_after_each_run_it_is_asked_at_once() {
        assert_eq!(next(&Look::default(), needs("s"), second(0)), When::Now);
        assert_eq!(next(&asked(0), needs("other"), second(1001)), When::Now);
    }

    #[test]
    fn else_every_two_minutes_and_more_often_while_something_is_on_its_way() {
        assert_eq!(next(&asked(0), needs("s"), second(1001)), When::At(second(1120)));
        assert_eq!(next(&asked(0), needs("s"), second(1120)), When::Now);
        let restless = Needs { restless: true, ..needs("s") };
        assert_eq!(next(&asked(0), restless, second(1001)), When::At(second(1010)));
    }

    #[test]
    fn no_answer_is_followed_by_growing_pauses_whatever_happens() {
        assert_eq!(next(&asked(1), needs("other"), second(1001)), When::At(second(1005)));
        assert_eq!(next(&asked(3), needs("s"), second(1001)), When::At(second(1020)));
        assert_eq!(next(&asked(30), needs("s"), second(1001)), When::At(second(1120)));
    }

    #[test]
    fn a_token_that_is_needed_does_not_wait_for_the_interval() {
        let token = Needs { token_at: Some(second(1030)), ..needs("s") };
        assert_eq!(next(&asked(0), token, second(1001)), When::At(second(1030)));
        assert_eq!(next(&asked(0), token, second(1031)), When::Now);
        assert_eq!(next(&asked(1), token, second(1031)), When::Now);
        assert_eq!(next(&asked(4), token, second(1031)), When::At(second(1040)));
    }
}
