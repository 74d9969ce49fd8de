//! Derives `status.phase` from the conditions alone. Pure.

use capt_kinds::api::{Phase, conditions::types};
use capt_kube::k8s::conditions::is_true;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The phase of an object with these conditions.
pub(crate) fn phase_from_conditions(conditions: &[Condition], is_deleting: bool) -> Phase {
    if is_deleting {
        Phase::Deleting
    } else if is_true(conditions, types::FAILED) {
        Phase::Failed
    } else if is_true(conditions, types::READY) {
        Phase::Ready
    } else if is_true(conditions, types::INITIALIZED) {
        Phase::Updating
    } else {
        Phase::Creating
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::api::conditions::reasons;
    use capt_kube::k8s::conditions::{ConditionUpdate, set};

    fn of(true_ones: &[&'static str], is_deleting: bool) -> Phase {
        let mut conditions = Vec::new();
        for type_ in true_ones {
            let _ = set(
                &mut conditions,
                ConditionUpdate::status_true(type_, reasons::READY, ""),
                None,
                jiff::Timestamp::UNIX_EPOCH,
            );
        }
        phase_from_conditions(&conditions, is_deleting)
    }

    #[test]
    fn every_phase_has_its_conditions() {
        let table: [(&[&'static str], bool, Phase); 7] = [
            (&[], false, Phase::Creating),
            (&[types::CREATING], false, Phase::Creating),
            (&[types::INITIALIZED, types::AVAILABLE], false, Phase::Updating),
            (&[types::INITIALIZED, types::READY], false, Phase::Ready),
            (&[types::INITIALIZED, types::AVAILABLE, types::FAILED], false, Phase::Failed),
            (&[types::FAILED], false, Phase::Failed),
            (&[types::INITIALIZED, types::READY, types::FAILED], true, Phase::Deleting),
        ];
        for (conditions, is_deleting, expected) in table {
            assert_eq!(of(conditions, is_deleting), expected, "{conditions:?}");
        }
    }
}
