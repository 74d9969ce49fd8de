//! Conditions of an object's status.
//!
//! `lastTransitionTime` changes only with the status. Conditions are sorted by type, so that equal conditions serialise to
//! equal bytes.

use jiff::Timestamp;
use k8s_controller::conditions::{self, ConditionChange, DesiredCondition};
pub use k8s_controller::conditions::{ConditionStatus, find};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::truncate::truncate_text;

/// Maximum message length in the condition schema, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 32_768;

/// The desired value of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// One of [`capt_kinds::api::conditions::types`].
    pub type_: &'static str,
    /// The status.
    pub status: ConditionStatus,
    /// One of [`capt_kinds::api::conditions::reasons`].
    pub reason: &'static str,
    /// Human-readable message. May be empty.
    pub message: String,
}

impl ConditionUpdate {
    /// Status `True`.
    pub fn status_true(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::True, reason, message: message.into() }
    }

    /// Status `False`.
    pub fn status_false(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::False, reason, message: message.into() }
    }

    /// Status `Unknown`.
    pub fn status_unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}

/// Sets one condition; returns whether its status changed or it is new.
pub fn set(
    conditions: &mut Vec<Condition>,
    said: ConditionUpdate,
    generation: Option<i64>,
    now: Timestamp,
) -> ConditionChange {
    let ConditionUpdate { type_, status, reason, message } = said;
    let desired = DesiredCondition::new(type_, status, reason, truncate_text(&message, MAX_MESSAGE_BYTES));
    set_with_time(conditions, type_, desired.observed_generation(generation), now)
}

/// Copies a condition of another object. An invalid status becomes `Unknown`.
pub fn reflect(
    conditions: &mut Vec<Condition>,
    type_: &'static str,
    source: &Condition,
    generation: Option<i64>,
    now: Timestamp,
) -> ConditionChange {
    let status = source.status.parse().unwrap_or(ConditionStatus::Unknown);
    let message = truncate_text(&source.message, MAX_MESSAGE_BYTES);
    let desired = DesiredCondition::new(type_, status, source.reason.clone(), message);
    set_with_time(conditions, type_, desired.observed_generation(generation), now)
}

fn set_with_time(
    conditions: &mut Vec<Condition>,
    type_: &'static str,
    desired: DesiredCondition,
    now: Timestamp,
) -> ConditionChange {
    let change = conditions::set(conditions, desired);
    // `conditions::set` uses the wall clock; callers pass their own.
    if change == ConditionChange::Transitioned
        && let Some(one) = conditions.iter_mut().find(|one| one.type_ == type_)
    {
        one.last_transition_time = Time(whole_seconds(now));
    }
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    change
}

/// Removes a condition; returns whether it existed.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    conditions::remove(conditions, type_)
}

/// Whether a condition exists with status `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|one| one.status == ConditionStatus::True.as_str())
}

/// The condition if it changed to `True`.
pub fn turned_true<'a>(old: &[Condition], new: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    find(new, type_).filter(|_| is_true(new, type_) && !is_true(old, type_))
}

/// Truncates to seconds, which is what the API server stores.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::api::conditions::{reasons, types};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_time_moves_only_when_the_status_flips_and_has_no_fraction() {
        let mut all = Vec::new();
        let (first, later) = (at("2026-11-01T10:00:00.75Z"), at("2026-11-01T11:00:00Z"));
        let change = set(
            &mut all,
            ConditionUpdate::status_false(types::READY, reasons::CREATING, "1 of 9"),
            Some(1),
            first,
        );
        assert_eq!(change, ConditionChange::Transitioned);
        assert_eq!(all[0].last_transition_time.0, at("2026-11-01T10:00:00Z"));

        let change = set(
            &mut all,
            ConditionUpdate::status_false(types::READY, reasons::CREATING, "2 of 9"),
            Some(2),
            later,
        );
        assert_eq!((change, all[0].last_transition_time.0), (ConditionChange::Updated, whole_seconds(first)));
        assert_eq!((all[0].message.as_str(), all[0].observed_generation), ("2 of 9", Some(2)));

        let change = set(
            &mut all,
            ConditionUpdate::status_false(types::READY, reasons::CREATING, "2 of 9"),
            Some(2),
            later,
        );
        assert_eq!(change, ConditionChange::Unchanged);

        let change =
            set(&mut all, ConditionUpdate::status_true(types::READY, reasons::READY, ""), Some(2), later);
        assert_eq!((change, all[0].last_transition_time.0), (ConditionChange::Transitioned, later));
        assert!(is_true(&all, types::READY) && !is_true(&all, types::PAUSED));
    }

    #[test]
    fn the_order_in_which_they_are_said_does_not_matter() {
        let now = at("2026-11-01T10:00:00Z");
        let said = [types::SYNCED, types::READY, types::PAUSED]
            .map(|type_| ConditionUpdate::status_unknown(type_, reasons::CREATING, ""));
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
        let said = ConditionUpdate::status_false(types::READY, reasons::CREATING, "ü".repeat(20_000));
        let _ = set(&mut all, said.clone(), None, at("2026-11-01T10:00:00Z"));
        assert!(all[0].message.len() <= MAX_MESSAGE_BYTES && all[0].message.ends_with('…'));
        let again = set(&mut all, said, None, at("2026-11-01T10:00:00Z"));
        assert_eq!(again, ConditionChange::Unchanged);
    }
}
