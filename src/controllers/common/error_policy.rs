//! When an object is looked at again after an error. The class of the error decides, and nothing else does.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use kube::runtime::controller::Action;

use crate::{error::Class, k8s::K8sError};

/// An error that knows what kind of trouble it is.
pub trait Classed: std::error::Error {
    /// What happens next.
    fn class(&self) -> Class;
    /// One word for metrics.
    fn category(&self) -> &'static str;
}

impl Classed for K8sError {
    fn class(&self) -> Class {
        Self::class(self)
    }

    fn category(&self) -> &'static str {
        Self::category(self)
    }
}

/// The first pause after passing trouble; doubled each time.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_mins(5);
/// A moment in which our own watch hears of what somebody else wrote.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Conflicts in a row after which they are taken for trouble.
const PATIENCE: u32 = 10;
/// How often something is looked at that only others can change: events may get lost.
const NET: Duration = Duration::from_mins(10);

/// How many failures in a row each object had.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<String, u32>>);

impl Attempts {
    /// Another failure of this object. When is it looked at again?
    pub fn failed(&self, object: &str, class: Class) -> Action {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let attempts = all.entry(object.to_owned()).or_insert(0);
        *attempts = attempts.saturating_add(1);
        after(class, *attempts, jitter(object, *attempts))
    }

    /// It went well.
    pub fn went_well(&self, object: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }
}

/// The next look after so many failures in a row; `jitter` is from 0 to 1.
fn after(class: Class, attempts: u32, jitter: f64) -> Action {
    let growing = |before: u32| {
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(before.min(16))).min(LONGEST);
        Action::requeue(pause.mul_f64(1.0 + 0.25 * jitter))
    };
    match class {
        Class::Conflict if attempts <= PATIENCE => Action::requeue(AT_ONCE),
        Class::Conflict => growing(attempts - PATIENCE),
        Class::Transient => growing(attempts.saturating_sub(1)),
        Class::Waiting | Class::Invalid | Class::Terminal => {
            Action::requeue(NET.mul_f64(1.0 + 0.25 * jitter))
        }
    }
}

/// Different for each object and attempt, and the same in each run of a test.
fn jitter(object: &str, attempts: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    (object, attempts).hash(&mut hasher);
    f64::from(u16::try_from(hasher.finish() & 0xffff).unwrap_or_default()) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(class: Class, attempts: u32) -> Duration {
        // `Action` hides its time; it prints it.
        let whole = [Duration::ZERO, AT_ONCE, FIRST, FIRST * 2, FIRST * 4, LONGEST, NET];
        let action = after(class, attempts, 0.0);
        whole.into_iter().find(|one| action == Action::requeue(*one)).unwrap()
    }

    #[test]
    fn the_class_decides() {
        assert_eq!(pause(Class::Conflict, 1), AT_ONCE);
        assert_eq!(pause(Class::Transient, 1), FIRST);
        assert_eq!(pause(Class::Transient, 3), FIRST * 4);
        assert_eq!(pause(Class::Transient, 40), LONGEST);
        for class in [Class::Waiting, Class::Invalid, Class::Terminal] {
            assert_eq!(pause(class, 1), NET, "{class:?}");
        }
    }

    #[test]
    fn conflicts_that_do_not_end_are_trouble() {
        assert_eq!(pause(Class::Conflict, PATIENCE + 1), FIRST * 2);
    }

    #[test]
    fn what_went_well_begins_anew() {
        let attempts = Attempts::default();
        let first = attempts.failed("team/demo", Class::Transient);
        assert_ne!(attempts.failed("team/demo", Class::Transient), first);
        attempts.went_well("team/demo");
        assert_eq!(attempts.failed("team/demo", Class::Transient), first);
    }

    #[test]
    fn two_objects_do_not_come_back_together() {
        let attempts = Attempts::default();
        let one = attempts.failed("team/one", Class::Transient);
        assert_ne!(one, attempts.failed("team/two", Class::Transient));
    }
}
