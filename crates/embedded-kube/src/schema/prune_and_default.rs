//! Pruning, null handling and defaulting by schema, before validation.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::parse::{AdditionalProperties, Schema};

/// Always declared at the root and in embedded resources.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes undeclared fields and returns their sorted paths.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut walk = Pruner { path: String::new(), unknown: Vec::new() };
    walk.value(object, Some(schema), true);
    walk.unknown.sort();
    walk.unknown
}

/// As `prune`, for a value that is not a resource.
pub fn prune_value(value: &mut Value, schema: &Schema) {
    Pruner { path: String::new(), unknown: Vec::new() }.value(value, Some(schema), false);
}

struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>, root: bool) {
        if let Some(schema) = schema.filter(|it| it.preserve_unknown_fields) {
            return self.kept(value, schema, root);
        }
        match value {
            Value::Object(map) => self.map(map, schema, root),
            Value::Array(list) => {
                let items = schema.and_then(|it| it.items.as_deref());
                self.items(list, |walk, item| walk.value(item, items, false));
            }
            _ => {}
        }
    }

    /// Below `x-kubernetes-preserve-unknown-fields`: only declared parts are pruned.
    fn kept(&mut self, value: &mut Value, schema: &Schema, root: bool) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if (root || schema.embedded) && META.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(child) = schema.child(key) {
                        self.at_key(key, |walk| walk.value(value, Some(child), false));
                    } else if let Some(AdditionalProperties::Any(_)) = &schema.additional_properties {
                        self.at_key(key, |walk| walk.value(value, None, false));
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = schema.items.as_deref() {
                    self.items(list, |walk, item| walk.kept(item, items, false));
                }
            }
            _ => {}
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>, schema: Option<&Schema>, root: bool) {
        map.retain(|key, value| {
            let Some(schema) = schema else {
                self.record(key);
                return false;
            };
            if (root || schema.embedded) && META.contains(&key.as_str()) {
                return true;
            }
            if let Some(child) = schema.properties.get(key) {
                self.at_key(key, |walk| walk.value(value, Some(child), false));
            } else if schema.additional_properties.is_some() {
                self.at_key(key, |walk| walk.value(value, schema.additional_schema(), false));
            } else {
                self.record(key);
                return false;
            }
            true
        });
    }

    fn items(&mut self, list: &mut [Value], mut each: impl FnMut(&mut Self, &mut Value)) {
        let length = self.path.len();
        for (index, item) in list.iter_mut().enumerate() {
            let _ = write!(self.path, "[{index}]");
            each(self, item);
            self.path.truncate(length);
        }
    }

    fn at_key(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.push(key);
        inside(self);
        self.path.truncate(length);
    }

    fn push(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn record(&mut self, key: &str) {
        let length = self.path.len();
        self.push(key);
        self.unknown.push(self.path.clone());
        self.path.truncate(length);
    }
}

/// Removes nulls that are neither nullable nor replaced by a default.
pub fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let child = schema.and_then(|it| it.child(key));
            if value.is_null() && child.is_some_and(|it| !it.nullable && it.default.is_none()) {
                return false;
            }
            drop_nulls(value, child);
            true
        }),
        Value::Array(list) => {
            let items = schema.and_then(|it| it.items.as_deref());
            for item in list {
                drop_nulls(item, items);
            }
        }
        _ => {}
    }
}

/// Sets defaults.
pub fn set_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (key, child) in &schema.properties {
                let Some(default) = &child.default else { continue };
                if map.get(key).is_none_or(|value| value.is_null() && !child.nullable) {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(child) = schema.properties.get(key) {
                    set_defaults(value, child);
                } else if let Some(child) = schema.additional_schema() {
                    set_child_defaults(value, child);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items.as_deref() {
                for item in list {
                    set_child_defaults(item, items);
                }
            }
        }
        _ => {}
    }
}

fn set_child_defaults(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or_default();
    }
    set_defaults(value, schema);
}
