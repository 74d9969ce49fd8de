//! Validates a value against its shape.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{super::go_fmt, Atom, ListAtom, MapAtom, TypeRef};
use crate::shape::Scalar;

/// Errors: a path and a text.
pub type TypeErrors = Vec<(String, String)>;

/// Validates a value. `duplicates` allows duplicate items in sets and keyed lists.
pub fn validate_typed(value: &Value, kind: TypeRef<'_>, duplicates: bool) -> TypeErrors {
    match kind.atom(Some(value)) {
        Atom::Scalar(scalar) => {
            scalar_error(scalar, value).map(|text| (String::new(), text)).into_iter().collect()
        }
        Atom::List(list) => match value {
            Value::Null => TypeErrors::new(),
            Value::Array(items) => validate_list(items, &list, duplicates),
            other => single_error(format!("expected list, got &{{{}}}", go_fmt::format_v(other))),
        },
        Atom::Map(map) => match value {
            Value::Null => TypeErrors::new(),
            Value::Object(fields) => validate_map(fields, &map, duplicates),
            other => single_error(format!("expected map, got &{{{}}}", go_fmt::format_v(other))),
        },
    }
}

/// Formats all errors as one text.
pub fn format_type_errors(faults: &TypeErrors) -> String {
    let shown = |(path, text): &(String, String)| {
        if path.is_empty() { text.clone() } else { format!("{path}: {text}") }
    };
    match faults.as_slice() {
        [one] => shown(one),
        many => {
            let lines: Vec<String> = many.iter().map(|fault| format!("  {}", shown(fault))).collect();
            format!("errors:\n{}", lines.join("\n"))
        }
    }
}

fn single_error(text: String) -> TypeErrors {
    vec![(String::new(), text)]
}

fn prefixed(prefix: &dyn std::fmt::Display, faults: TypeErrors) -> impl Iterator<Item = (String, String)> {
    faults.into_iter().map(move |(path, text)| (format!("{prefix}{path}"), text))
}

fn validate_list(items: &[Value], list: &ListAtom<'_>, duplicates: bool) -> TypeErrors {
    let mut faults = TypeErrors::new();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if list.is_atomic() {
            faults.extend(prefixed(&format!("[{index}]"), validate_typed(item, list.items, duplicates)));
            continue;
        }
        let element = match list.element(item) {
            Ok(element) => element,
            Err(text) => {
                faults.extend(single_error(format!("element {index}: {text}")));
                return faults;
            }
        };
        let below = validate_typed(item, list.items, duplicates);
        if !duplicates && seen.contains(&element) {
            faults.extend(single_error(format!("duplicate entries for key {element}")));
        }
        faults.extend(prefixed(&element, below));
        seen.insert(element);
    }
    faults
}

fn validate_map(fields: &Map<String, Value>, map: &MapAtom<'_>, duplicates: bool) -> TypeErrors {
    let mut faults = TypeErrors::new();
    for (key, value) in fields {
        let Some(kind) = map.field(key) else {
            faults.push((format!(".{key}"), "field not declared in schema".to_owned()));
            return faults;
        };
        faults.extend(prefixed(&format!(".{key}"), validate_typed(value, kind, duplicates)));
    }
    faults
}

/// Validates a scalar; null is always valid.
pub fn scalar_error(kind: Option<Scalar>, value: &Value) -> Option<String> {
    let text = match (kind, value) {
        (_, Value::Null)
        | (Some(Scalar::Integer | Scalar::Number), Value::Number(_))
        | (Some(Scalar::Boolean), Value::Bool(_)) => return None,
        (None | Some(Scalar::IntOrString | Scalar::Quantity), value) => {
            if !value.is_array() && !value.is_object() {
                return None;
            }
            format!("expected any scalar, got &{{{}}}", go_fmt::format_v(value))
        }
        (Some(Scalar::Integer | Scalar::Number), other) => {
            format!("expected numeric (int or float), got {}", go_fmt::format_type(other))
        }
        (Some(Scalar::Boolean), other) => format!("expected boolean, got &{{{}}}", go_fmt::format_v(other)),
        (Some(_), Value::String(_)) => return None,
        (Some(_), other) => {
            format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_fmt::format_sharp_v(other)
            )
        }
    };
    Some(text)
}
