//! Which finished changes a state contains, so that the journal is not needed for them any more.

use std::collections::BTreeSet;

use super::{
    recorded::{ChangeOutcome, RecordedChange, has_same_identity},
    state_document::{ObjectInState, StateDocument},
    value::ResourceValue,
};

/// Calls whose results are in the state. In doubt a call is left out: its entries stay for longer than they are needed.
pub fn contained_calls(changes: &[RecordedChange], state: &StateDocument) -> BTreeSet<u64> {
    let objects: Vec<ObjectInState> = state.objects().collect();
    let is_contained = |change: &&RecordedChange| {
        let ChangeOutcome::Finished { new, failed, .. } = &change.outcome else { return false };
        let of_kind = || objects.iter().filter(|object| object.address.kind == change.kind);
        if new.is_null() {
            // A creation that made nothing needs no state; what was deleted is in none.
            let made_nothing = change.prior.is_null();
            return made_nothing
                || (!failed && !of_kind().any(|it| has_same_identity(&it.value, &change.prior)));
        }
        let is_it = |value: &ResourceValue| {
            // A creation is found by its identity: terraform may have changed the object since.
            if change.prior.is_null() { has_same_identity(value, new) } else { value == new }
        };
        of_kind().any(|object| is_it(&object.value))
    };
    changes.iter().filter(is_contained).map(|change| change.call).collect()
}
