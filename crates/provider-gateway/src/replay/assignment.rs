//! Assigns recorded creations to addresses of a plan.

use super::{address::InstanceAddress, recorded::RecordedChange, value::ResourceValue};

/// An object that a plan creates.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCreate {
    /// Its address.
    pub address: InstanceAddress,
    /// The address as terraform prints it.
    pub text: String,
    /// The provider configuration.
    pub provider: String,
    /// The planned value.
    pub value: ResourceValue,
}

/// The address of a recorded creation.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Call number of the creation.
    pub call: u64,
    /// The address.
    pub address: InstanceAddress,
    /// The address as terraform prints it.
    pub text: String,
    /// The provider configuration.
    pub provider: String,
}

/// Assigns creations to the addresses at which a plan would make them again. A creation is assigned only if exactly one
/// address fits it, and it alone fits that address.
///
/// Equal values decide first: a plan of the same configuration on a state that has the object's dependencies plans the same
/// value. If nothing is equal, values decide that are equal wherever both are known.
pub fn assign(changes: &[RecordedChange], plan: &[PlannedCreate]) -> Vec<Assignment> {
    let equal = assign_if(changes, plan, |planned, wanted| planned == wanted);
    if equal.is_empty() { assign_if(changes, plan, ResourceValue::is_compatible_with) } else { equal }
}

fn assign_if(
    changes: &[RecordedChange],
    plan: &[PlannedCreate],
    fits: impl Fn(&ResourceValue, &ResourceValue) -> bool,
) -> Vec<Assignment> {
    let pair = |change: &RecordedChange, wanted: &PlannedCreate| {
        wanted.address.kind == change.kind && fits(&change.planned, &wanted.value)
    };
    let mut assignments = Vec::new();
    for change in changes {
        let mut fitting = plan.iter().filter(|wanted| pair(change, wanted));
        let (Some(wanted), None) = (fitting.next(), fitting.next()) else { continue };
        if changes.iter().filter(|other| pair(other, wanted)).count() == 1 {
            assignments.push(Assignment {
                call: change.call,
                address: wanted.address.clone(),
                text: wanted.text.clone(),
                provider: wanted.provider.clone(),
            });
        }
    }
    assignments
}
