//! Conditions: one function sets them all.
//!
//! The time of a condition tells when its status flipped, not when it was written. Conditions stand in the order of their
//! types, so that the same findings give the same bytes.

use jiff::Timestamp;
use k8s_controller::conditions::{self, ConditionChange, DesiredCondition};
pub use k8s_controller::conditions::{ConditionStatus, find};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::text::cut;

/// Longest message that the schema of a condition allows, in bytes.
pub const LONGEST_MESSAGE: usize = 32_768;

/// What is to be said about one aspect of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The aspect; one of [`crate::api::conditions::types`].
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word; one of [`crate::api::conditions::reasons`].
    pub reason: &'static str,
    /// Why, for people. May be empty.
    pub message: String,
}

impl Said {
    /// It holds.
    pub fn yes(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::True, reason, message: message.into() }
    }

    /// It does not hold.
    pub fn no(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::False, reason, message: message.into() }
    }

    /// Nobody knows.
    pub fn unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}

/// Sets one condition. Says whether its status flipped (or it is new), which is when people want an event.
pub fn set(
    conditions: &mut Vec<Condition>,
    said: Said,
    generation: Option<i64>,
    now: Timestamp,
) -> ConditionChange {
    let Said { type_, status, reason, message } = said;
    let desired = DesiredCondition::new(type_, status, reason, cut(&message, LONGEST_MESSAGE));
    put(conditions, type_, desired.observed_generation(generation), now)
}

/// Sets one condition to what another object says of itself. A status that is no status is unknown.
pub fn reflect(
    conditions: &mut Vec<Condition>,
    type_: &'static str,
    source: &Condition,
    generation: Option<i64>,
    now: Timestamp,
) -> ConditionChange {
    let status = source.status.parse().unwrap_or(ConditionStatus::Unknown);
    let message = cut(&source.message, LONGEST_MESSAGE);
    let desired = DesiredCondition::new(type_, status, source.reason.clone(), message);
    put(conditions, type_, desired.observed_generation(generation), now)
}

fn put(
    conditions: &mut Vec<Condition>,
    type_: &'static str,
    desired: DesiredCondition,
    now: Timestamp,
) -> ConditionChange {
    let change = conditions::set(conditions, desired);
    // It took the wall clock; the moment is ours to say.
    if change == ConditionChange::Transitioned
        && let Some(one) = conditions.iter_mut().find(|one| one.type_ == type_)
    {
        one.last_transition_time = Time(whole_seconds(now));
    }
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    change
}

/// Removes one condition; says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    conditions::remove(conditions, type_)
}

/// Whether a condition is there and holds.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|one| one.status == ConditionStatus::True.as_str())
}

/// A condition that holds now and did not before.
pub fn turned_true<'a>(old: &[Condition], new: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    find(new, type_).filter(|_| is_true(new, type_) && !is_true(old, type_))
}

/// The API server keeps seconds: anything finer would differ from what is read back.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::conditions::{reasons, types};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_time_moves_only_when_the_status_flips_and_has_no_fraction() {
        let mut all = Vec::new();
        let (first, later) = (at("2026-11-01T10:00:00.75Z"), at("2026-11-01T11:00:00Z"));
        let change = set(&mut all, Said::no(types::READY, reasons::CREATING, "1 of 9"), Some(1), first);
        assert_eq!(change, ConditionChange::Transitioned);
        assert_eq!(all[0].last_transition_time.0, at("2026-11-01T10:00:00Z"));

        let change = set(&mut all, Said::no(types::READY, reasons::CREATING, "2 of 9"), Some(2), later);
        assert_eq!((change, all[0].last_transition_time.0), (ConditionChange::Updated, whole_seconds(first)));
        assert_eq!((all[0].message.as_str(), all[0].observed_generation), ("2 of 9", Some(2)));

        let change = set(&mut all, Said::no(types::READY, reasons::CREATING, "2 of 9"), Some(2), later);
        assert_eq!(change, ConditionChange::Unchanged);

        let change = set(&mut all, Said::yes(types::READY, reasons::READY, ""), Some(2), later);
        assert_eq!((change, all[0].last_transition_time.0), (ConditionChange::Transitioned, later));
        assert!(is_true(&all, types::READY) && !is_true(&all, types::PAUSED));
    }

    #[test]
    fn the_order_in_which_they_are_said_does_not_matter() {
        let now = at("2026-11-01T10:00:00Z");
        let said = [types::SYNCED, types::READY, types::PAUSED]
            .map(|type_| Said::unknown(type_, reasons::CREATING, ""));
        let (mut forth, mut back) = (Vec::new(), Vec::new());
        for one in said.iter().cloned() {
            let _ = set(&mut forth, one, None, now);
        }
        for one in said.iter().rev().cloned() {
            let _ = set(&mut back, one, None, now);
        }
        assert_eq!(forth, back);
        assert_eq!(
            forth.iter().map(|one| one.type_.as_str()).collect::<Vec<_>>(),
            ["Paused", "Ready", "Synced"]
        );
        assert!(remove(&mut forth, types::READY) && find(&forth, types::READY).is_none());
    }

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let mut all = Vec::new();
        let said = Said::no(types::READY, reasons::CREATING, "ü".repeat(20_000));
        let _ = set(&mut all, said.clone(), None, at("2026-11-01T10:00:00Z"));
        assert!(all[0].message.len() <= LONGEST_MESSAGE && all[0].message.ends_with('…'));
        let again = set(&mut all, said, None, at("2026-11-01T10:00:00Z"));
        assert_eq!(again, ConditionChange::Unchanged);
    }
}
