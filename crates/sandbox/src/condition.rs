//! Conditions of an object.
//!
//! Every condition type of a kind is always present, `Unknown` until determined, so that `kubectl wait` never waits for an absent
//! condition. `lastTransitionTime` changes only when the status flips.

use capt_kinds::sandbox::conditions::reasons;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Longest message that the schema of a condition allows, in bytes.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl ConditionStatus {
    /// The value of the field `status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// One of [`capt_kinds::sandbox::conditions::types`].
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One of [`capt_kinds::sandbox::conditions::reasons`].
    pub reason: &'static str,
    /// For humans. May be empty.
    pub message: String,
}

impl ConditionUpdate {
    /// Status `True`.
    pub fn yes(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::True, reason, message: message.into() }
    }

    /// Status `False`.
    pub fn no(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::False, reason, message: message.into() }
    }

    /// Status `Unknown`.
    pub fn unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}

/// Merges `findings` into the conditions: exactly one for each of `types`, sorted by type.
pub fn merge_conditions(
    before: &[Condition],
    findings: &[ConditionUpdate],
    types: &[&'static str],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut types = types.to_vec();
    types.sort_unstable();
    let one = |type_: &&'static str| {
        let found = findings.iter().find(|it| it.type_ == *type_).cloned();
        let found = found.unwrap_or_else(|| ConditionUpdate::unknown(type_, reasons::PENDING, ""));
        let old = before.iter().find(|it| it.type_ == *type_);
        let since =
            old.filter(|it| it.status == found.status.as_str()).map(|it| it.last_transition_time.clone());
        Condition {
            type_: (*type_).to_owned(),
            status: found.status.as_str().to_owned(),
            reason: found.reason.to_owned(),
            message: truncate_message(found.message),
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
        }
    };
    types.iter().map(one).collect()
}

/// Whether a condition is present and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|it| it.type_ == type_ && it.status == ConditionStatus::True.as_str())
}

/// The API server stores whole seconds; a finer value would differ from the one read back.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn truncate_message(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::sandbox::conditions::types;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn every_type_is_there_from_the_first_moment() {
        for kind in [&types::OF_SANDBOX[..], &types::OF_ROUTE_GROUP[..], &types::OF_LOCAL_WORKLOAD[..]] {
            let all = merge_conditions(&[], &[], kind, Some(3), at("2026-11-17T05:00:00.5Z"));
            assert_eq!(all.len(), kind.len());
            for one in &all {
                assert_eq!(
                    (one.status.as_str(), one.reason.as_str()),
                    ("Unknown", "Pending"),
                    "{}",
                    one.type_
                );
                assert_eq!(one.observed_generation, Some(3));
                assert_eq!(one.last_transition_time, Time(at("2026-11-17T05:00:00Z")));
            }
        }
    }

    #[test]
    fn the_time_moves_only_when_the_status_flips() {
        let said = |message: &str| [ConditionUpdate::no(types::FORKS_READY, reasons::PROGRESSING, message)];
        let first =
            merge_conditions(&[], &said("a"), &types::OF_SANDBOX, Some(1), at("2026-11-17T05:00:00Z"));
        let same =
            merge_conditions(&first, &said("b"), &types::OF_SANDBOX, Some(2), at("2026-11-17T06:00:00Z"));
        let of = |all: &[Condition]| all.iter().find(|it| it.type_ == types::FORKS_READY).unwrap().clone();
        assert_eq!(of(&same).last_transition_time, of(&first).last_transition_time);
        assert_eq!((of(&same).message.as_str(), of(&same).observed_generation), ("b", Some(2)));
        let ready = [ConditionUpdate::yes(types::FORKS_READY, reasons::READY, "")];
        let flipped =
            merge_conditions(&same, &ready, &types::OF_SANDBOX, Some(2), at("2026-11-17T07:00:00Z"));
        assert_eq!(of(&flipped).last_transition_time, Time(at("2026-11-17T07:00:00Z")));
        assert!(is_true(&flipped, types::FORKS_READY) && !is_true(&flipped, types::READY));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "ä".repeat(MAX_MESSAGE_BYTES);
        let all = merge_conditions(
            &[],
            &[ConditionUpdate::no(types::READY, reasons::PENDING, long)],
            &[types::READY],
            None,
            at("2026-11-17T05:00:00Z"),
        );
        assert_eq!(all[0].message.len(), MAX_MESSAGE_BYTES);
    }
}
