//! Conditions: what is said of an object, and that nothing is left unsaid.
//!
//! Every type of a kind is always there, `Unknown` until somebody knows, so that a wait for a condition never hangs on one
//! that is absent. The time of a condition moves only when its status flips.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::conditions::reasons;

/// Longest message that the schema of a condition allows, in bytes.
const LONGEST: usize = 32_768;

/// Whether something holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl Status {
    /// As conditions write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What is said about one aspect of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The aspect; one of [`crate::api::conditions::types`].
    pub type_: &'static str,
    /// Whether it holds.
    pub status: Status,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for people. May be empty.
    pub message: String,
}

impl Finding {
    /// It holds.
    pub fn yes(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::True, reason, message: message.into() }
    }

    /// It does not hold.
    pub fn no(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::False, reason, message: message.into() }
    }

    /// Nobody knows.
    pub fn unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::Unknown, reason, message: message.into() }
    }
}

/// The conditions after `findings`: exactly one for each of `types`, in the order of their names.
pub fn written(
    before: &[Condition],
    findings: &[Finding],
    types: &[&'static str],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut types = types.to_vec();
    types.sort_unstable();
    let one = |type_: &&'static str| {
        let found = findings.iter().find(|it| it.type_ == *type_).cloned();
        let found = found.unwrap_or_else(|| Finding::unknown(type_, reasons::PENDING, ""));
        let old = before.iter().find(|it| it.type_ == *type_);
        let since =
            old.filter(|it| it.status == found.status.word()).map(|it| it.last_transition_time.clone());
        Condition {
            type_: (*type_).to_owned(),
            status: found.status.word().to_owned(),
            reason: found.reason.to_owned(),
            message: cut(found.message),
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
        }
    };
    types.iter().map(one).collect()
}

/// Whether a condition is there and holds.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|it| it.type_ == type_ && it.status == Status::True.word())
}

/// The API server keeps seconds: anything finer would differ from what is read back.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::conditions::types;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn every_type_is_there_from_the_first_moment() {
        for kind in [&types::OF_SANDBOX[..], &types::OF_ROUTE_GROUP[..], &types::OF_LOCAL_WORKLOAD[..]] {
            let all = written(&[], &[], kind, Some(3), at("2026-11-17T05:00:00.5Z"));
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
        let said = |message: &str| [Finding::no(types::FORKS_READY, reasons::PROGRESSING, message)];
        let first = written(&[], &said("a"), &types::OF_SANDBOX, Some(1), at("2026-11-17T05:00:00Z"));
        let same = written(&first, &said("b"), &types::OF_SANDBOX, Some(2), at("2026-11-17T06:00:00Z"));
        let of = |all: &[Condition]| all.iter().find(|it| it.type_ == types::FORKS_READY).unwrap().clone();
        assert_eq!(of(&same).last_transition_time, of(&first).last_transition_time);
        assert_eq!((of(&same).message.as_str(), of(&same).observed_generation), ("b", Some(2)));
        let ready = [Finding::yes(types::FORKS_READY, reasons::READY, "")];
        let flipped = written(&same, &ready, &types::OF_SANDBOX, Some(2), at("2026-11-17T07:00:00Z"));
        assert_eq!(of(&flipped).last_transition_time, Time(at("2026-11-17T07:00:00Z")));
        assert!(is_true(&flipped, types::FORKS_READY) && !is_true(&flipped, types::READY));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "ä".repeat(LONGEST);
        let all = written(
            &[],
            &[Finding::no(types::READY, reasons::PENDING, long)],
            &[types::READY],
            None,
            at("2026-11-17T05:00:00Z"),
        );
        assert_eq!(all[0].message.len(), LONGEST);
    }
}
