//! Fingerprint of a workspace at the time of a plan without changes.
//!
//! A probe compares responses of the provider with earlier responses, never with the state: the state may contain null
//! where the provider returns an empty value, which is not drift. Only equal digests of equal requests prove
//! 'unchanged'; every other outcome requires a plan and never reports drift by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PlanReason, ProbeResult, ReadResult};
use crate::serve::{DataSourceRead, RunActivity};

/// Every n-th check is a plan, regardless of the probes.
pub const PLAN_EVERY: u32 = 12;

/// Inputs that the fingerprint depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerprintInputs {
    /// Digest of everything rendered, including variables.
    pub configuration: String,
    /// Lineage and serial of the state.
    pub state: String,
    /// Digest of the provider package.
    pub provider: String,
    /// Digest of the provider's environment and tenant.
    pub surroundings: String,
}

/// Stored with the workspace. Contains digests and the requests for data sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Inputs at the time of the plan.
    pub inputs: FingerprintInputs,
    /// Key of the provider's configuration in the gateway.
    pub seat: String,
    /// Address → digest of the response.
    pub objects: BTreeMap<String, String>,
    /// Data sources with the digests of their responses.
    pub data: Vec<DataSourceRead>,
    /// Checks since the plan.
    pub checks: u32,
}

impl Fingerprint {
    /// Creates the fingerprint from a probe right after a plan without changes. The probe must return what the plan
    /// read: an object that changed in between would otherwise be recorded as unchanged.
    pub fn from_probe(
        inputs: FingerprintInputs,
        seen: RunActivity,
        probed: &ProbeResult,
    ) -> Result<Self, PlanReason> {
        let RunActivity { seats, data, reads, too_much, unwanted: _ } = seen;
        let mut seats = seats.into_iter();
        let (Some(seat), None, false) = (seats.next(), seats.next(), too_much) else {
            return Err(PlanReason::Manifold);
        };
        let mut objects = BTreeMap::new();
        for (address, found) in &probed.objects {
            match found {
                ReadResult::There { digest } if reads.contains(digest) => {
                    objects.insert(address.clone(), digest.clone());
                }
                ReadResult::There { .. } => return Err(PlanReason::Moved { address: address.clone() }),
                ReadResult::Missing => return Err(PlanReason::Missing { address: address.clone() }),
                ReadResult::Failed { words } => {
                    return Err(PlanReason::Failed { address: address.clone(), words: words.clone() });
                }
            }
        }
        compare_data(&data, &probed.data)?;
        Ok(Self { inputs, seat, objects, data, checks: 0 })
    }

    /// Whether a probe is useful: its inputs must be the same as at the time of the plan.
    pub fn check_inputs(&self, now: &FingerprintInputs) -> Result<(), PlanReason> {
        let FingerprintInputs { configuration, state, provider, surroundings } = now;
        let pairs = [
            ("configuration", &self.inputs.configuration, configuration),
            ("state", &self.inputs.state, state),
            ("provider", &self.inputs.provider, provider),
            ("environment", &self.inputs.surroundings, surroundings),
        ];
        if let Some((what, _, _)) = pairs.into_iter().find(|(_, then, now)| then != now) {
            return Err(PlanReason::Input { what: what.to_owned() });
        }
        if self.checks + 1 >= PLAN_EVERY { Err(PlanReason::Age) } else { Ok(()) }
    }

    /// Whether all objects and data sources are unchanged.
    pub fn compare(&self, probed: &ProbeResult) -> Result<(), PlanReason> {
        for (address, then) in &self.objects {
            match probed.objects.get(address) {
                Some(ReadResult::There { digest }) if digest == then => {}
                Some(ReadResult::There { .. }) => {
                    return Err(PlanReason::Differs { address: address.clone() });
                }
                Some(ReadResult::Missing) | None => {
                    return Err(PlanReason::Missing { address: address.clone() });
                }
                Some(ReadResult::Failed { words }) => {
                    return Err(PlanReason::Failed { address: address.clone(), words: words.clone() });
                }
            }
        }
        if let Some(address) = probed.objects.keys().find(|address| !self.objects.contains_key(*address)) {
            return Err(PlanReason::Differs { address: address.clone() });
        }
        compare_data(&self.data, &probed.data)
    }
}

/// Compares data sources in request order.
fn compare_data(then: &[DataSourceRead], now: &[ReadResult]) -> Result<(), PlanReason> {
    let moved = then
        .iter()
        .zip(now)
        .any(|(then, now)| !matches!(now, ReadResult::There { digest } if *digest == then.digest));
    if moved || then.len() != now.len() { Err(PlanReason::Data) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> FingerprintInputs {
        let text = str::to_owned;
        FingerprintInputs {
            configuration: text("c"),
            state: text("l 1"),
            provider: text("p"),
            surroundings: text("e"),
        }
    }

    fn there(digest: &str) -> ReadResult {
        ReadResult::There { digest: digest.to_owned() }
    }

    fn probed(objects: &[(&str, ReadResult)], data: &[ReadResult]) -> ProbeResult {
        let objects = objects.iter().map(|(address, found)| ((*address).to_owned(), found.clone()));
        ProbeResult { objects: objects.collect(), data: data.to_vec() }
    }

    fn data(digest: &str) -> DataSourceRead {
        DataSourceRead {
            seat: String::new(),
            path: String::new(),
            request: String::new(),
            digest: digest.to_owned(),
        }
    }

    fn seen(reads: &[&str], read: &[DataSourceRead]) -> RunActivity {
        RunActivity {
            seats: ["s".to_owned()].into(),
            data: read.to_vec(),
            reads: reads.iter().map(|it| (*it).to_owned()).collect(),
            ..RunActivity::default()
        }
    }

    fn taken() -> Fingerprint {
        let now = probed(&[("a", there("1")), ("b", there("2"))], &[there("d")]);
        Fingerprint::from_probe(inputs(), seen(&["1", "2"], &[data("d")]), &now).unwrap()
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
            (probed(&[a(), ("b", there("3"))], &d()), PlanReason::Differs { address: address("b") }),
            (probed(&[a()], &d()), PlanReason::Missing { address: address("b") }),
            (probed(&[("a", ReadResult::Missing), b()], &d()), PlanReason::Missing { address: address("a") }),
            (probed(&[a(), b(), ("c", there("1"))], &d()), PlanReason::Differs { address: address("c") }),
            (probed(&[a(), b()], &[there("e")]), PlanReason::Data),
            (probed(&[a(), b()], &[]), PlanReason::Data),
        ] {
            assert_eq!(taken().compare(&now), Err(why));
        }
    }

    #[test]
    fn a_changed_input_needs_a_plan() {
        type Change = fn(&mut FingerprintInputs);
        let changes: [(&str, Change); 4] = [
            ("configuration", |it| it.configuration.push('x')),
            ("state", |it| it.state.push('x')),
            ("provider", |it| it.provider.push('x')),
            ("environment", |it| it.surroundings.push('x')),
        ];
        for (what, change) in changes {
            let mut now = inputs();
            change(&mut now);
            assert_eq!(taken().check_inputs(&now), Err(PlanReason::Input { what: what.to_owned() }));
        }
        assert_eq!(taken().check_inputs(&inputs()), Ok(()));
    }

    #[test]
    fn every_twelfth_check_is_a_plan() {
        let mut fingerprint = taken();
        let mut probes = 0;
        while fingerprint.check_inputs(&inputs()).is_ok() {
            fingerprint.checks += 1;
            probes += 1;
        }
        assert_eq!(probes, PLAN_EVERY - 1);
    }

    #[test]
    fn an_answer_that_is_none_makes_no_fingerprint() {
        let gone = probed(&[("a", ReadResult::Missing)], &[]);
        assert!(Fingerprint::from_probe(inputs(), seen(&[], &[]), &gone).is_err());
        // A data source that changes with each read would require a plan each time.
        let moving = probed(&[], &[there("2")]);
        assert_eq!(
            Fingerprint::from_probe(inputs(), seen(&[], &[data("1")]), &moving),
            Err(PlanReason::Data)
        );
        // The plan has not read this value.
        let changed = probed(&[("a", there("2"))], &[]);
        let why = Err(PlanReason::Moved { address: "a".to_owned() });
        assert_eq!(Fingerprint::from_probe(inputs(), seen(&["1"], &[]), &changed), why);
        let two = RunActivity { seats: ["s".to_owned(), "t".to_owned()].into(), ..RunActivity::default() };
        assert_eq!(
            Fingerprint::from_probe(inputs(), two, &ProbeResult::default()),
            Err(PlanReason::Manifold)
        );
    }
}
