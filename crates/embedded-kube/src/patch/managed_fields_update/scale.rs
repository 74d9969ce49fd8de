//! Owners of the number of replicas, when it is written through `scale`.
//!
//! The real server turns the owners of the object's number into owners of the Scale's number, lets the write happen
//! there, and turns them back. On that way updaters get another version, so they come back as new owners: an entry that
//! owns more than the number is split, and what is new has no time.

use serde_json::Value;

use super::super::{
    Writer,
    fields::Set,
    owners::{Owner, Owners, encode},
};
use crate::object::{MetaMut, at};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Puts `managedFields` into `new`, which differs from `old` in the number at most.
pub fn track(old: &Value, new: &mut Value, writer: &Writer<'_>) {
    let owners = Owners::decode(at(old, &["metadata", "managedFields"])).unwrap_or_default();
    let number = Set::of_paths(&[writer.replicas]);
    let steps: Vec<&str> = writer.replicas.split('.').collect();
    let has_number = |owner: &Owner| !owner.set.common(&number).is_empty();
    let mut scalers: Vec<Owner> =
        owners.iter().filter(|owner| has_number(owner)).map(|owner| scaler(owner, &number)).collect();
    let count = |object: &Value| at(object, &steps).and_then(Value::as_i64).unwrap_or_default();
    // A number that nobody owns stays so; and a Scale does not show zero, so zero is nobody's.
    if !scalers.is_empty() && count(old) != count(new) {
        scalers.clear();
        if count(new) != 0 {
            scalers.push(scaler(&Owner::new(writer, writer.manager, false), &number));
        }
    }
    let mut all = Vec::new();
    for mut owner in owners.into_iter() {
        if has_number(&owner) {
            let id = owner.id();
            if let Some(place) = scalers.iter().position(|scaler| scaler.id() == id) {
                scalers.swap_remove(place);
            } else {
                owner.set.subtract(&number);
            }
        }
        if !owner.set.is_empty() {
            all.push(owner);
        }
    }
    for mut scaler in scalers {
        writer.api_version.clone_into(&mut scaler.api_version);
        all.push(scaler);
    }
    if let Some(entries) = encode(all.iter().collect()) {
        new.set_meta("managedFields", entries);
    }
}

/// An owner of the number, as the Scale knows it.
fn scaler(owner: &Owner, number: &Set) -> Owner {
    Owner { api_version: SCALE_VERSION.to_owned(), time: None, set: number.clone(), ..owner.clone() }
}
