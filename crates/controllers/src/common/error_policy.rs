//! Requeue delays after errors. They depend on the error class and the number of consecutive failures only.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use capt_kube::{
    error::ErrorClass,
    k8s::{K8sError, state_store::StateStoreError},
};
use kube::runtime::controller::Action;
use terraform_driver::workspace::{WorkspaceError, files::FileError};

/// The cause of a failed reconcile, with its class for the error policy.
pub trait ClassifiedError: std::error::Error {
    /// Class that selects the requeue delay.
    fn class(&self) -> ErrorClass;
}

impl ClassifiedError for K8sError {
    fn class(&self) -> ErrorClass {
        Self::class(self)
    }
}

impl ClassifiedError for StateStoreError {
    fn class(&self) -> ErrorClass {
        Self::class(self)
    }
}

/// A damaged workspace directory needs a person.
impl ClassifiedError for WorkspaceError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Terminal
    }
}

/// A disk that cannot be read or written needs a person.
impl ClassifiedError for FileError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Terminal
    }
}

/// First delay after a transient error; doubled each time.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum delay.
const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// Delay after a conflict: long enough for our watch to receive the conflicting write.
const CONFLICT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Consecutive conflicts after which they back off like transient errors.
const MAX_CONFLICTS: u32 = 10;
/// Resync interval for errors that only a change elsewhere resolves, in case a watch event was missed.
const RESYNC_INTERVAL: Duration = Duration::from_mins(10);

/// Consecutive failures per object.
#[derive(Debug, Default)]
pub struct ErrorBackoff(Mutex<HashMap<String, u32>>);

impl ErrorBackoff {
    /// Counts a failure of this object and returns the requeue delay.
    pub fn record_failure(&self, object: &str, class: ErrorClass) -> Action {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let attempts = all.entry(object.to_owned()).or_insert(0);
        *attempts = attempts.saturating_add(1);
        requeue_after(class, *attempts, jitter(object, *attempts))
    }

    /// Resets the count after a success.
    pub fn reset(&self, object: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }
}

/// Requeue delay after `attempts` consecutive failures; `jitter` is from 0 to 1.
fn requeue_after(class: ErrorClass, attempts: u32, jitter: f64) -> Action {
    let growing = |before: u32| {
        let pause = INITIAL_BACKOFF.saturating_mul(2_u32.saturating_pow(before.min(16))).min(MAX_BACKOFF);
        Action::requeue(pause.mul_f64(1.0 + 0.25 * jitter))
    };
    match class {
        ErrorClass::Conflict if attempts <= MAX_CONFLICTS => Action::requeue(CONFLICT_RETRY_DELAY),
        ErrorClass::Conflict => growing(attempts - MAX_CONFLICTS),
        ErrorClass::Transient => growing(attempts.saturating_sub(1)),
        ErrorClass::Waiting | ErrorClass::Invalid | ErrorClass::Terminal => {
            Action::requeue(RESYNC_INTERVAL.mul_f64(1.0 + 0.25 * jitter))
        }
    }
}

/// Jitter that differs per object and attempt but is deterministic, for tests.
fn jitter(object: &str, attempts: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    (object, attempts).hash(&mut hasher);
    f64::from(u16::try_from(hasher.finish() & 0xffff).unwrap_or_default()) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(class: ErrorClass, attempts: u32) -> Duration {
        // `Action` does not expose its delay, so compare it with the candidates.
        let whole = [
            Duration::ZERO,
            CONFLICT_RETRY_DELAY,
            INITIAL_BACKOFF,
            INITIAL_BACKOFF * 2,
            INITIAL_BACKOFF * 4,
            MAX_BACKOFF,
            RESYNC_INTERVAL,
        ];
        let action = requeue_after(class, attempts, 0.0);
        whole.into_iter().find(|one| action == Action::requeue(*one)).unwrap()
    }

    #[test]
    fn the_class_decides() {
        assert_eq!(pause(ErrorClass::Conflict, 1), CONFLICT_RETRY_DELAY);
        assert_eq!(pause(ErrorClass::Transient, 1), INITIAL_BACKOFF);
        assert_eq!(pause(ErrorClass::Transient, 3), INITIAL_BACKOFF * 4);
        assert_eq!(pause(ErrorClass::Transient, 40), MAX_BACKOFF);
        for class in [ErrorClass::Waiting, ErrorClass::Invalid, ErrorClass::Terminal] {
            assert_eq!(pause(class, 1), RESYNC_INTERVAL, "{class:?}");
        }
    }

    #[test]
    fn conflicts_that_do_not_end_are_trouble() {
        assert_eq!(pause(ErrorClass::Conflict, MAX_CONFLICTS + 1), INITIAL_BACKOFF * 2);
    }

    #[test]
    fn what_went_well_begins_anew() {
        let attempts = ErrorBackoff::default();
        let first = attempts.record_failure("team/demo", ErrorClass::Transient);
        assert_ne!(attempts.record_failure("team/demo", ErrorClass::Transient), first);
        attempts.reset("team/demo");
        assert_eq!(attempts.record_failure("team/demo", ErrorClass::Transient), first);
    }

    #[test]
    fn two_objects_do_not_come_back_together() {
        let attempts = ErrorBackoff::default();
        let one = attempts.record_failure("team/one", ErrorClass::Transient);
        assert_ne!(one, attempts.record_failure("team/two", ErrorClass::Transient));
    }
}
