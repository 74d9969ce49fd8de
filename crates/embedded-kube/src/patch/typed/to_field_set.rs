//! The field set of a value.

use std::collections::{BTreeMap, btree_map};

use serde_json::{Map, Value};

use super::{
    super::field_set::{FieldSet, FieldSetEntry, PathElement},
    Atom, ListAtom, MapAtom, TypeRef,
};

/// Every leaf and item of a validated object.
pub fn to_field_set(object: &Value, kind: TypeRef<'_>) -> FieldSet {
    entry_of_value(object, kind).children
}

fn entry_of_value(value: &Value, kind: TypeRef<'_>) -> FieldSetEntry {
    match (kind.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => FieldSetEntry::leaf(),
        (Atom::List(list), _) if list.is_atomic() => FieldSetEntry::leaf(),
        (Atom::Map(map), _) if map.atomic => FieldSetEntry::leaf(),
        (Atom::List(list), Value::Array(items)) => {
            FieldSetEntry { member: false, children: set_of_list(items, &list) }
        }
        (Atom::Map(map), Value::Object(fields)) => {
            FieldSetEntry { member: false, children: set_of_map(fields, &map) }
        }
        _ => FieldSetEntry::default(),
    }
}

fn set_of_map(fields: &Map<String, Value>, map: &MapAtom<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    for (key, value) in fields {
        let mut entry = entry_of_value(value, map.field_or_any(key));
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        entry.member |= is_empty || !map.declares(key);
        set.insert(PathElement::Field(key.clone()), entry);
    }
    set
}

fn set_of_list(items: &[Value], list: &ListAtom<'_>) -> FieldSet {
    let mut found: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
    for item in items {
        let Ok(element) = list.element(item) else { continue };
        match found.entry(element) {
            btree_map::Entry::Vacant(place) => {
                place.insert(Some(item));
            }
            // For duplicate items only their existence is recorded.
            btree_map::Entry::Occupied(mut place) => {
                place.insert(None);
            }
        }
    }
    let mut set = FieldSet::default();
    for (element, item) in found {
        let mut entry = item.map(|item| entry_of_value(item, list.items)).unwrap_or_default();
        entry.member = true;
        set.insert(element, entry);
    }
    set
}
