//! How soon an object is looked at again after an error.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::error::Class;

const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_mins(5);

/// Counts the errors in a row of each object.
#[derive(Debug, Default)]
pub struct Pace {
    errors: Mutex<BTreeMap<String, u32>>,
}

impl Pace {
    /// The pause after one more error of this class.
    pub fn after(&self, object: &str, class: Class) -> Duration {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let count = errors.entry(object.to_owned()).or_default();
        *count = count.saturating_add(1);
        match class {
            // Somebody else wrote first; what they wrote is on its way to us.
            Class::Conflict if *count < 10 => Duration::from_millis(100),
            Class::Invalid | Class::Terminal => MOST,
            Class::Waiting | Class::Conflict | Class::Transient => spread(growing(*count), object),
        }
    }

    /// Forgets the errors of an object.
    pub fn went_well(&self, object: &str) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }
}

fn growing(count: u32) -> Duration {
    LEAST.saturating_mul(2_u32.saturating_pow(count.saturating_sub(1).min(16))).min(MOST)
}

/// Objects that failed together are not tried again together.
fn spread(pause: Duration, object: &str) -> Duration {
    let place = object.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    pause.mul_f64(1.0 + f64::from(place % 250) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_begin_anew_when_it_went_well() {
        let pace = Pace::default();
        let pauses: Vec<_> = (0..20).map(|_| pace.after("a", Class::Transient)).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert!(pauses[19] <= MOST.mul_f64(1.25));
        pace.went_well("a");
        assert_eq!(pace.after("a", Class::Transient), pauses[0]);
    }

    #[test]
    fn a_conflict_is_tried_at_once_but_not_for_ever() {
        let pace = Pace::default();
        assert_eq!(pace.after("a", Class::Conflict), Duration::from_millis(100));
        let many: Vec<_> = (0..20).map(|_| pace.after("a", Class::Conflict)).collect();
        assert!(many[19] > Duration::from_secs(1));
    }

    #[test]
    fn what_only_a_change_can_mend_is_left_alone_for_long() {
        assert_eq!(Pace::default().after("a", Class::Invalid), MOST);
    }
}
