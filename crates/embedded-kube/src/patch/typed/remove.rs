//! Removes fields from a value.

use serde_json::{Map, Value};

use super::{
    super::field_set::{FieldSet, PathElement},
    Atom, TypeRef,
};

/// Removes these fields and items. Values that become empty are null.
pub fn remove_fields(value: &Value, fields: &FieldSet, kind: TypeRef<'_>) -> Value {
    match (kind.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => value.clone(),
        (Atom::List(list), Value::Array(items)) if !list.is_atomic() => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let entry = list.element(item).ok().and_then(|element| fields.get(&element));
                    match entry {
                        Some(entry) if entry.member => None,
                        Some(entry) => Some(remove_fields(item, &entry.children, list.items)),
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
                    let value = match fields.get(&PathElement::Field(key.clone())) {
                        Some(entry) if entry.member => return None,
                        Some(entry) => remove_fields(member, &entry.children, map.field_or_any(key)),
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
