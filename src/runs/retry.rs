//! When a failed run is tried again. Pure.

use std::{error::Error, time::Duration};

use terraform_driver::{
    classify::{Advice, Class, Failure},
    run::StepError,
};

use crate::work::WorkError;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of failure it is.
    pub class: Class,
    /// AWS's code.
    pub code: Option<String>,
    /// Address of the resource.
    pub address: Option<String>,
    /// In a sentence.
    pub message: String,
}

impl Trouble {
    /// Of an error of the work.
    pub fn of(error: &WorkError) -> Self {
        match error {
            WorkError::Failed(Failure { class, code, address, message }) => {
                Self { class: *class, code: code.clone(), address: address.clone(), message: message.clone() }
            }
            other => Self { class: class(other), code: None, address: None, message: whole(other) },
        }
    }

    /// Whether it is no failure but a wait.
    pub const fn is_wait(&self) -> bool {
        matches!(self.class, Class::Wait)
    }
}

/// What kind of failure the driver's own errors are.
fn class(error: &WorkError) -> Class {
    match error {
        WorkError::Keeping { .. } | WorkError::Repair(_) => Class::Network,
        WorkError::Step(StepError::Killed { .. } | StepError::Hung { .. }) => Class::Interrupted,
        WorkError::NotEmpty { .. } => Class::Dependency,
        WorkError::Lock(_) => Class::Lock,
        WorkError::Step(_) | WorkError::File(_) | WorkError::Workspace(_) | WorkError::Site(_) => {
            Class::Engine
        }
        WorkError::Moved { .. }
        | WorkError::StateLost
        | WorkError::NoEnvironment { .. }
        | WorkError::Resolve(_)
        | WorkError::Render(_)
        | WorkError::Fetch(_)
        | WorkError::Output(_) => Class::UserFix,
        WorkError::Failed(_)
        | WorkError::Blocked { .. }
        | WorkError::Interrupted
        | WorkError::NotConfirmed => Class::Unknown,
    }
}

/// An error with its causes.
fn whole(error: &WorkError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// The shortest pause between two runs that nobody asked for.
const LEAST: Duration = Duration::from_secs(5);
/// The longest pause.
const MOST: Duration = Duration::from_mins(10);

/// How long to wait before the next run after `attempts` failures in a row; `jitter` is from 0 to 1. `None`: until
/// something changes.
pub fn pause(class: Class, attempts: u32, jitter: f64) -> Option<Duration> {
    let spread = |pause: Duration| pause.mul_f64(1.0 + 0.2 * jitter.clamp(0.0, 1.0));
    let growing =
        || spread(LEAST.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1).min(10))).min(MOST));
    match class.advice() {
        Advice::RetryWithin { least, most } => {
            Some(least + most.saturating_sub(least).mul_f64(jitter.clamp(0.0, 1.0)))
        }
        Advice::ShortRetries { span } => Some(if attempts <= 6 { spread(span / 12) } else { spread(MOST) }),
        Advice::Replan if attempts <= 3 => Some(Duration::from_secs(1)),
        Advice::Backoff
        | Advice::Replan
        | Advice::CleanUp
        | Advice::ProveLockDead
        | Advice::RefreshCredentials => Some(growing()),
        // The world may change without telling us, but rarely: a person who mends a permission should not have to
        // touch the object.
        Advice::SlowRetry | Advice::AwaitChange => Some(spread(MOST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p6_what_only_a_person_can_mend_is_not_tried_more_than_six_times_an_hour() {
        for class in [Class::UserFix, Class::Credentials, Class::Quota, Class::Protected] {
            for attempts in 1..20 {
                assert!(pause(class, attempts, 0.0) >= Some(Duration::from_mins(10)), "{class:?}");
            }
        }
    }

    #[test]
    fn passing_trouble_is_tried_with_growing_pauses_up_to_a_limit() {
        let pauses: Vec<_> = (1..12).filter_map(|attempts| pause(Class::Throttle, attempts, 0.0)).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert_eq!(pauses.first(), Some(&LEAST));
        assert_eq!(pauses.last(), Some(&MOST));
    }

    #[test]
    fn a_cluster_that_is_busy_is_asked_again_within_a_minute() {
        assert!(pause(Class::Wait, 50, 1.0) <= Some(Duration::from_mins(1)));
    }

    #[test]
    fn jitter_spreads_and_never_shortens() {
        assert!(pause(Class::Network, 3, 1.0) > pause(Class::Network, 3, 0.0));
    }
}
