//! Uniqueness in lists that are sets or maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{parse::Schema, validation_result::display_value};
use crate::status_error::FieldError;

/// Reports each duplicate item once.
pub fn validate_lists(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, path, &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(child) = schema.properties.get(key) {
                    walk(child, value, &child_path(path, key), errors);
                } else if let Some(child) = schema.additional_schema() {
                    walk(child, value, &format!("{path}[{key}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            validate_list(schema, items, path, errors);
            if let Some(child) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    walk(child, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

/// Path of a field.
pub fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn validate_list(schema: &Schema, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let keys: Vec<Value> = match schema.list_type.as_deref() {
        Some("set") => items.iter().map(display_value).collect(),
        Some("map") => {
            let odd = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null());
            if let Some((index, item)) = odd {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(format!("{path}[{index}]"), display_value(item), detail));
                return;
            }
            items.iter().map(|item| key_of(schema, item)).collect()
        }
        _ => return,
    };
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (index, key) in keys.into_iter().enumerate() {
        let times = seen.entry(key.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), key));
        }
    }
}

fn key_of(schema: &Schema, item: &Value) -> Value {
    let mut keys: Vec<&String> = schema.list_keys.iter().collect();
    keys.sort();
    let pairs =
        keys.into_iter().filter_map(|key| item.get(key).map(|value| (key.clone(), display_value(value))));
    Value::Object(pairs.collect::<Map<_, _>>())
}
