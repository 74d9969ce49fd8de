//! Which fields does a value have?

use std::collections::{BTreeMap, btree_map};

use serde_json::{Map, Value};

use super::{
    super::fields::{Element, Entry, Set},
    Atom, ListAtom, MapAtom, Type,
};

/// Every leaf and item of an object that has been checked.
pub fn gather(object: &Value, kind: Type<'_>) -> Set {
    gather_entry(object, kind).below
}

fn gather_entry(value: &Value, kind: Type<'_>) -> Entry {
    match (kind.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => Entry::leaf(),
        (Atom::List(list), _) if list.is_atomic() => Entry::leaf(),
        (Atom::Map(map), _) if map.atomic => Entry::leaf(),
        (Atom::List(list), Value::Array(items)) => Entry { member: false, below: gather_list(items, &list) },
        (Atom::Map(map), Value::Object(fields)) => Entry { member: false, below: gather_map(fields, &map) },
        _ => Entry::default(),
    }
}

fn gather_map(fields: &Map<String, Value>, map: &MapAtom<'_>) -> Set {
    let mut set = Set::default();
    for (key, value) in fields {
        let mut entry = gather_entry(value, map.field_or_any(key));
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        entry.member |= is_empty || !map.declares(key);
        set.put(Element::Field(key.clone()), entry);
    }
    set
}

fn gather_list(items: &[Value], list: &ListAtom<'_>) -> Set {
    let mut found: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for item in items {
        let Ok(element) = list.element(item) else { continue };
        match found.entry(element) {
            btree_map::Entry::Vacant(place) => {
                place.insert(Some(item));
            }
            // Of items that come twice only the fact is kept.
            btree_map::Entry::Occupied(mut place) => {
                place.insert(None);
            }
        }
    }
    let mut set = Set::default();
    for (element, item) in found {
        let mut entry = item.map(|item| gather_entry(item, list.items)).unwrap_or_default();
        entry.member = true;
        set.put(element, entry);
    }
    set
}
