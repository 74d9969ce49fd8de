//! What a workspace looked like when a plan had found nothing to change.
//!
//! The comparison is with answers of the provider and never with the state: a state may say null where the provider
//! says empty, and neither is drift. Equal digests of equal questions are the only proof of 'unchanged'; everything
//! else is a reason for a plan, and never a verdict of drift.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Found, Probed, Why};
use crate::serve::{DataRead, Seen};

/// Every so many checks are plans, whatever the probes say.
pub const EVERY: u32 = 12;

/// What the answers were about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// Of everything that was rendered, variables included.
    pub configuration: String,
    /// Lineage and serial of the state.
    pub state: String,
    /// Of the provider's package.
    pub provider: String,
    /// Of the environment that the provider was given, and for whom.
    pub surroundings: String,
}

/// Kept beside a workspace. Holds digests, and the questions about data sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// What it is about.
    pub inputs: Inputs,
    /// The provider's configuration, as the gateway knows it.
    pub seat: String,
    /// Address → digest of the answer.
    pub objects: BTreeMap<String, String>,
    /// Data sources with the digests of their answers.
    pub data: Vec<DataRead>,
    /// How many checks have passed since the plan.
    pub checks: u32,
}

impl Fingerprint {
    /// The fingerprint of a probe right after a plan that found nothing to change; a reason if there can be none. What
    /// the probe was told must be what the plan was told: an object that changed in between would otherwise be taken
    /// for one that is as it should be.
    pub fn of(inputs: Inputs, seen: Seen, probed: &Probed) -> Result<Self, Why> {
        let Seen { seats, data, reads, too_much, unwanted: _ } = seen;
        let mut seats = seats.into_iter();
        let (Some(seat), None, false) = (seats.next(), seats.next(), too_much) else {
            return Err(Why::Manifold);
        };
        let mut objects = BTreeMap::new();
        for (address, found) in &probed.objects {
            match found {
                Found::There { digest } if reads.contains(digest) => {
                    objects.insert(address.clone(), digest.clone());
                }
                Found::There { .. } => return Err(Why::Moved { address: address.clone() }),
                Found::Missing => return Err(Why::Missing { address: address.clone() }),
                Found::Failed { words } => {
                    return Err(Why::Failed { address: address.clone(), words: words.clone() });
                }
            }
        }
        same_data(&data, &probed.data)?;
        Ok(Self { inputs, seat, objects, data, checks: 0 })
    }

    /// Whether a probe is worth its calls: whether what it would compare is still about the same thing.
    pub fn worth_a_probe(&self, now: &Inputs) -> Result<(), Why> {
        let Inputs { configuration, state, provider, surroundings } = now;
        let pairs = [
            ("configuration", &self.inputs.configuration, configuration),
            ("state", &self.inputs.state, state),
            ("provider", &self.inputs.provider, provider),
            ("environment", &self.inputs.surroundings, surroundings),
        ];
        if let Some((what, _, _)) = pairs.into_iter().find(|(_, then, now)| then != now) {
            return Err(Why::Input { what: what.to_owned() });
        }
        if self.checks + 1 >= EVERY { Err(Why::Age) } else { Ok(()) }
    }

    /// Whether everything is as it was.
    pub fn compare(&self, probed: &Probed) -> Result<(), Why> {
        for (address, then) in &self.objects {
            match probed.objects.get(address) {
                Some(Found::There { digest }) if digest == then => {}
                Some(Found::There { .. }) => return Err(Why::Differs { address: address.clone() }),
                Some(Found::Missing) | None => return Err(Why::Missing { address: address.clone() }),
                Some(Found::Failed { words }) => {
                    return Err(Why::Failed { address: address.clone(), words: words.clone() });
                }
            }
        }
        if let Some(address) = probed.objects.keys().find(|address| !self.objects.contains_key(*address)) {
            return Err(Why::Differs { address: address.clone() });
        }
        same_data(&self.data, &probed.data)
    }
}

/// In the order in which they were asked.
fn same_data(then: &[DataRead], now: &[Found]) -> Result<(), Why> {
    let moved = then
        .iter()
        .zip(now)
        .any(|(then, now)| !matches!(now, Found::There { digest } if *digest == then.digest));
    if moved || then.len() != now.len() { Err(Why::Data) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        let text = str::to_owned;
        Inputs { configuration: text("c"), state: text("l 1"), provider: text("p"), surroundings: text("e") }
    }

    fn there(digest: &str) -> Found {
        Found::There { digest: digest.to_owned() }
    }

    fn probed(objects: &[(&str, Found)], data: &[Found]) -> Probed {
        let objects = objects.iter().map(|(address, found)| ((*address).to_owned(), found.clone()));
        Probed { objects: objects.collect(), data: data.to_vec() }
    }

    fn data(digest: &str) -> DataRead {
        DataRead {
            seat: String::new(),
            path: String::new(),
            request: String::new(),
            digest: digest.to_owned(),
        }
    }

    fn seen(reads: &[&str], read: &[DataRead]) -> Seen {
        Seen {
            seats: ["s".to_owned()].into(),
            data: read.to_vec(),
            reads: reads.iter().map(|it| (*it).to_owned()).collect(),
            ..Seen::default()
        }
    }

    fn taken() -> Fingerprint {
        let now = probed(&[("a", there("1")), ("b", there("2"))], &[there("d")]);
        Fingerprint::of(inputs(), seen(&["1", "2"], &[data("d")]), &now).unwrap()
    }

    #[test]
    fn equal_answers_are_unchanged() {
        let same = probed(&[("a", there("1")), ("b", there("2"))], &[there("d")]);
        assert_eq!(taken().compare(&same), Ok(()));
    }

    #[test]
    fn everything_else_is_a_reason_for_a_plan() {
        let (a, b, d) = (|| ("a", there("1")), || ("b", there("2")), || [there("d")]);
        let address = |it: &str| it.to_owned();
        for (now, why) in [
            (probed(&[a(), ("b", there("3"))], &d()), Why::Differs { address: address("b") }),
            (probed(&[a()], &d()), Why::Missing { address: address("b") }),
            (probed(&[("a", Found::Missing), b()], &d()), Why::Missing { address: address("a") }),
            (probed(&[a(), b(), ("c", there("1"))], &d()), Why::Differs { address: address("c") }),
            (probed(&[a(), b()], &[there("e")]), Why::Data),
            (probed(&[a(), b()], &[]), Why::Data),
        ] {
            assert_eq!(taken().compare(&now), Err(why));
        }
    }

    #[test]
    fn a_changed_input_needs_a_plan() {
        type Change = fn(&mut Inputs);
        let changes: [(&str, Change); 4] = [
            ("configuration", |it| it.configuration.push('x')),
            ("state", |it| it.state.push('x')),
            ("provider", |it| it.provider.push('x')),
            ("environment", |it| it.surroundings.push('x')),
        ];
        for (what, change) in changes {
            let mut now = inputs();
            change(&mut now);
            assert_eq!(taken().worth_a_probe(&now), Err(Why::Input { what: what.to_owned() }));
        }
        assert_eq!(taken().worth_a_probe(&inputs()), Ok(()));
    }

    #[test]
    fn every_twelfth_check_is_a_plan() {
        let mut fingerprint = taken();
        let mut probes = 0;
        while fingerprint.worth_a_probe(&inputs()).is_ok() {
            fingerprint.checks += 1;
            probes += 1;
        }
        assert_eq!(probes, EVERY - 1);
    }

    #[test]
    fn an_answer_that_is_none_makes_no_fingerprint() {
        let gone = probed(&[("a", Found::Missing)], &[]);
        assert!(Fingerprint::of(inputs(), seen(&[], &[]), &gone).is_err());
        // A data source that answers differently each time would be a reason for a plan each time.
        let moving = probed(&[], &[there("2")]);
        assert_eq!(Fingerprint::of(inputs(), seen(&[], &[data("1")]), &moving), Err(Why::Data));
        // What the plan has not seen may not be as the plan wants it.
        let changed = probed(&[("a", there("2"))], &[]);
        let why = Err(Why::Moved { address: "a".to_owned() });
        assert_eq!(Fingerprint::of(inputs(), seen(&["1"], &[]), &changed), why);
        let two = Seen { seats: ["s".to_owned(), "t".to_owned()].into(), ..Seen::default() };
        assert_eq!(Fingerprint::of(inputs(), two, &Probed::default()), Err(Why::Manifold));
    }
}
