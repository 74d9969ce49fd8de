//! Managed fields of the replica count when it is written through `/scale`.
//!
//! kube-apiserver converts the entries that own the object's replica count to entries of the Scale, applies the write
//! there, and converts them back. The conversion changes the version of `Update` entries, so they return as new ones:
//! an entry that owns more than the count is split, and new entries have no time.

use serde_json::Value;

use super::super::{
    WriteContext,
    field_set::FieldSet,
    managed_fields::{ManagedFields, ManagedFieldsEntry, encode_entries},
};
use crate::object::{MetaAccessorMut, get_path};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Sets `managedFields` of `new`, which differs from `old` at most in the replica count.
pub fn update_scale_managed_fields(old: &Value, new: &mut Value, writer: &WriteContext<'_>) {
    let owners = ManagedFields::decode(get_path(old, &["metadata", "managedFields"])).unwrap_or_default();
    let number = FieldSet::from_paths(&[writer.replicas_path]);
    let steps: Vec<&str> = writer.replicas_path.split('.').collect();
    let has_number = |owner: &ManagedFieldsEntry| !owner.fields.intersection(&number).is_empty();
    let mut scalers: Vec<ManagedFieldsEntry> =
        owners.iter().filter(|owner| has_number(owner)).map(|owner| to_scale_entry(owner, &number)).collect();
    let count = |object: &Value| get_path(object, &steps).and_then(Value::as_i64).unwrap_or_default();
    // An unowned count stays unowned; and a Scale omits zero, so zero is unowned.
    if !scalers.is_empty() && count(old) != count(new) {
        scalers.clear();
        if count(new) != 0 {
            scalers.push(to_scale_entry(&ManagedFieldsEntry::new(writer, writer.manager, false), &number));
        }
    }
    let mut all = Vec::new();
    for mut owner in owners.into_iter() {
        if has_number(&owner) {
            let id = owner.identifier();
            if let Some(place) = scalers.iter().position(|scaler| scaler.identifier() == id) {
                scalers.swap_remove(place);
            } else {
                owner.fields.subtract(&number);
            }
        }
        if !owner.fields.is_empty() {
            all.push(owner);
        }
    }
    for mut scaler in scalers {
        writer.api_version.clone_into(&mut scaler.api_version);
        all.push(scaler);
    }
    if let Some(entries) = encode_entries(all.iter().collect()) {
        new.set_meta("managedFields", entries);
    }
}

/// Converts an entry that owns the replica count to one of the Scale.
fn to_scale_entry(owner: &ManagedFieldsEntry, number: &FieldSet) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        api_version: SCALE_VERSION.to_owned(),
        time: None,
        fields: number.clone(),
        ..owner.clone()
    }
}
