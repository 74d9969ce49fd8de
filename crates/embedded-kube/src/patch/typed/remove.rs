//! A value without some of its fields.

use serde_json::{Map, Value};

use super::{
    super::fields::{Element, Set},
    Atom, Type,
};

/// Without these fields and items. What is left without any content is null.
pub fn remove(value: &Value, fields: &Set, kind: Type<'_>) -> Value {
    match (kind.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => value.clone(),
        (Atom::List(list), Value::Array(items)) if !list.is_atomic() => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let entry = list.element(item).ok().and_then(|element| fields.get(&element));
                    match entry {
                        Some(entry) if entry.member => None,
                        Some(entry) => Some(remove(item, &entry.below, list.items)),
                        None => Some(item.clone()),
                    }
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Atom::Map(map), Value::Object(members)) if !map.atomic => {
            let kept: Map<String, Value> = members
                .iter()
                .filter_map(|(key, member)| {
                    let value = match fields.get(&Element::Field(key.clone())) {
                        Some(entry) if entry.member => return None,
                        Some(entry) => remove(member, &entry.below, map.field_or_any(key)),
                        None => member.clone(),
                    };
                    Some((key.clone(), value))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}
