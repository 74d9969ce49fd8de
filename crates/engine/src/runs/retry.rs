//! Failure classification and retry delays of runs. Pure: no I/O.

use std::time::Duration;

use capt_kinds::api;
use capt_util::error_chain::format_error_chain;
use terraform_driver::{
    classify::{FailureClass, RetryAdvice, TerraformFailure},
    run::{StepError, run_dir::StopReason},
};

use crate::pipeline::PipelineError;

/// Why a run failed, from the error of its pipeline.
pub(super) fn run_failure(error: &PipelineError) -> TerraformFailure {
    match error {
        PipelineError::Failed(failure) => failure.clone(),
        other => TerraformFailure {
            class: classify(other),
            code: None,
            address: None,
            message: format_error_chain(other),
        },
    }
}

/// The class as the status shows it.
pub const fn status_class(class: FailureClass) -> api::FailureClass {
    match class {
        FailureClass::Wait => api::FailureClass::Wait,
        FailureClass::Throttle => api::FailureClass::Throttle,
        FailureClass::Propagation => api::FailureClass::Propagation,
        FailureClass::UserFix => api::FailureClass::UserFix,
        FailureClass::AlreadyExists => api::FailureClass::AlreadyExists,
        FailureClass::Quota => api::FailureClass::Quota,
        FailureClass::Dependency => api::FailureClass::Dependency,
        FailureClass::Lock => api::FailureClass::Lock,
        FailureClass::Expired => api::FailureClass::Expired,
        FailureClass::Protected => api::FailureClass::Protected,
        FailureClass::StalePlan => api::FailureClass::StalePlan,
        FailureClass::Interrupted => api::FailureClass::Interrupted,
        FailureClass::Provider => api::FailureClass::Provider,
        FailureClass::Credentials => api::FailureClass::Credentials,
        FailureClass::Network => api::FailureClass::Network,
        FailureClass::Engine => api::FailureClass::Engine,
        FailureClass::Unknown => api::FailureClass::Unknown,
    }
}

/// Class of an error that terraform did not report. The driver classifies those that it reported.
fn classify(error: &PipelineError) -> FailureClass {
    if let PipelineError::Step(StepError::Hung { reason: StopReason::LogTooLarge, .. }) = error {
        return FailureClass::UserFix;
    }
    match error {
        PipelineError::StateBackup { .. }
        | PipelineError::InterruptedResource(_)
        | PipelineError::Gateway(_) => FailureClass::Network,
        PipelineError::Step(
            StepError::Killed { .. } | StepError::Hung { .. } | StepError::LeaseLost { .. },
        ) => FailureClass::Interrupted,
        PipelineError::ResourcesRemain { .. } => FailureClass::Dependency,
        PipelineError::Lock(_) => FailureClass::Lock,
        PipelineError::Step(_)
        | PipelineError::File(_)
        | PipelineError::Workspace(_)
        | PipelineError::StateUnreadable { .. }
        | PipelineError::StateUnwritable(_)
        | PipelineError::DataDirectory(_) => FailureClass::Engine,
        PipelineError::LocationChanged { .. }
        | PipelineError::StateLost
        | PipelineError::TooLarge { .. }
        | PipelineError::CreatedObjectUnplaced { .. }
        | PipelineError::OutcomeUnknown { .. }
        | PipelineError::OwnedByOther { .. }
        | PipelineError::MissingEnvironment { .. }
        | PipelineError::Resolve(_)
        | PipelineError::Render(_)
        | PipelineError::Fetch(_)
        | PipelineError::Output(_) => FailureClass::UserFix,
        PipelineError::Failed(_)
        | PipelineError::Blocked { .. }
        | PipelineError::Interrupted
        | PipelineError::NotConfirmed => FailureClass::Unknown,
    }
}

/// Minimum delay before an automatic retry.
const MIN_DELAY: Duration = Duration::from_secs(5);
/// Maximum delay before an automatic retry.
const MAX_DELAY: Duration = Duration::from_mins(10);

/// Delay before the next run after `attempts` consecutive failures of this class; `jitter` is between 0 and 1.
pub fn retry_delay(class: FailureClass, attempts: u32, jitter: f64) -> Duration {
    let spread = |pause: Duration| pause.mul_f64(1.0 + 0.2 * jitter.clamp(0.0, 1.0));
    let growing = || {
        spread(
            MIN_DELAY.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1).min(10))).min(MAX_DELAY),
        )
    };
    match class.advice() {
        RetryAdvice::RetryWithin { least, most } => {
            least + most.saturating_sub(least).mul_f64(jitter.clamp(0.0, 1.0))
        }
        RetryAdvice::ShortRetries { span } => spread(if attempts <= 6 { span / 12 } else { MAX_DELAY }),
        RetryAdvice::Replan if attempts <= 3 => Duration::from_secs(1),
        RetryAdvice::Backoff | RetryAdvice::Replan | RetryAdvice::OperatorBackoff => growing(),
        RetryAdvice::SlowRetry => spread(MAX_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p6_what_only_a_person_can_mend_is_not_tried_more_than_six_times_an_hour() {
        for class in [
            FailureClass::UserFix,
            FailureClass::AlreadyExists,
            FailureClass::Credentials,
            FailureClass::Quota,
            FailureClass::Protected,
        ] {
            for attempts in 1..20 {
                assert!(retry_delay(class, attempts, 0.0) >= Duration::from_mins(10), "{class:?}");
            }
        }
    }

    #[test]
    fn passing_trouble_is_tried_with_growing_pauses_up_to_a_limit() {
        let pauses: Vec<_> =
            (1..12).map(|attempts| retry_delay(FailureClass::Throttle, attempts, 0.0)).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert_eq!(pauses.first(), Some(&MIN_DELAY));
        assert_eq!(pauses.last(), Some(&MAX_DELAY));
    }

    #[test]
    fn a_cluster_that_is_busy_is_asked_again_within_a_minute() {
        assert!(retry_delay(FailureClass::Wait, 50, 1.0) <= Duration::from_mins(1));
    }

    #[test]
    fn the_status_has_every_class_under_its_own_name() {
        use FailureClass as Class;
        let all = [
            Class::Wait,
            Class::Throttle,
            Class::Propagation,
            Class::UserFix,
            Class::Quota,
            Class::Dependency,
            Class::Lock,
            Class::Expired,
            Class::AlreadyExists,
            Class::Protected,
            Class::StalePlan,
            Class::Interrupted,
            Class::Provider,
            Class::Credentials,
            Class::Network,
            Class::Engine,
            Class::Unknown,
        ];
        for class in all {
            assert_eq!(<&str>::from(status_class(class)), class.name());
        }
        assert_eq!(<api::FailureClass as strum::IntoEnumIterator>::iter().count(), all.len());
    }

    #[test]
    fn jitter_spreads_and_never_shortens() {
        assert!(retry_delay(FailureClass::Network, 3, 1.0) > retry_delay(FailureClass::Network, 3, 0.0));
    }
}
