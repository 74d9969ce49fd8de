//! Does a value fit its shape?

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{super::words, Atom, ListAtom, MapAtom, Type};
use crate::shape::Scalar;

/// What does not fit: a path and a text.
pub type Faults = Vec<(String, String)>;

/// Faults of a value; none if it fits. Items of sets and keyed lists may come twice only if `duplicates` says so.
pub fn check(value: &Value, kind: Type<'_>, duplicates: bool) -> Faults {
    match kind.atom(Some(value)) {
        Atom::Scalar(scalar) => {
            wrong_scalar(scalar, value).map(|text| (String::new(), text)).into_iter().collect()
        }
        Atom::List(list) => match value {
            Value::Null => Faults::new(),
            Value::Array(items) => check_list(items, &list, duplicates),
            other => one(format!("expected list, got &{{{}}}", words::plain(other))),
        },
        Atom::Map(map) => match value {
            Value::Null => Faults::new(),
            Value::Object(fields) => check_map(fields, &map, duplicates),
            other => one(format!("expected map, got &{{{}}}", words::plain(other))),
        },
    }
}

/// All faults as one text.
pub fn shown_faults(faults: &Faults) -> String {
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

fn one(text: String) -> Faults {
    vec![(String::new(), text)]
}

fn under(prefix: &dyn std::fmt::Display, faults: Faults) -> impl Iterator<Item = (String, String)> {
    faults.into_iter().map(move |(path, text)| (format!("{prefix}{path}"), text))
}

fn check_list(items: &[Value], list: &ListAtom<'_>, duplicates: bool) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if list.is_atomic() {
            faults.extend(under(&format!("[{index}]"), check(item, list.items, duplicates)));
            continue;
        }
        let element = match list.element(item) {
            Ok(element) => element,
            Err(text) => {
                faults.extend(one(format!("element {index}: {text}")));
                return faults;
            }
        };
        let below = check(item, list.items, duplicates);
        if !duplicates && seen.contains(&element) {
            faults.extend(one(format!("duplicate entries for key {element}")));
        }
        faults.extend(under(&element, below));
        seen.insert(element);
    }
    faults
}

fn check_map(fields: &Map<String, Value>, map: &MapAtom<'_>, duplicates: bool) -> Faults {
    let mut faults = Faults::new();
    for (key, value) in fields {
        let Some(kind) = map.field(key) else {
            faults.push((format!(".{key}"), "field not declared in schema".to_owned()));
            return faults;
        };
        faults.extend(under(&format!(".{key}"), check(value, kind, duplicates)));
    }
    faults
}

/// What is wrong with a scalar, if anything; null is always right.
pub fn wrong_scalar(kind: Option<Scalar>, value: &Value) -> Option<String> {
    let text = match (kind, value) {
        (_, Value::Null)
        | (Some(Scalar::Integer | Scalar::Number), Value::Number(_))
        | (Some(Scalar::Boolean), Value::Bool(_)) => return None,
        (None | Some(Scalar::IntOrString | Scalar::Quantity), value) => {
            if !value.is_array() && !value.is_object() {
                return None;
            }
            format!("expected any scalar, got &{{{}}}", words::plain(value))
        }
        (Some(Scalar::Integer | Scalar::Number), other) => {
            format!("expected numeric (int or float), got {}", words::type_of(other))
        }
        (Some(Scalar::Boolean), other) => format!("expected boolean, got &{{{}}}", words::plain(other)),
        (Some(_), Value::String(_)) => return None,
        (Some(_), other) => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", words::detailed(other))
        }
    };
    Some(text)
}
