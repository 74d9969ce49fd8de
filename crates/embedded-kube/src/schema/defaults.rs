//! Defaults must be good values themselves.

use serde_json::Value;

use super::{Compiled, check, embedded, fields, parse::Schema, verdict::shown};
use crate::failure::FieldError;

/// Faults of all defaults in a schema that stands at `path` in its CRD.
pub fn check(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, path, &mut errors);
    errors
}

fn walk(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        one(schema, default, &format!("{path}.default"), errors);
    }
    if let Some(items) = schema.items.as_deref() {
        walk(items, &format!("{path}.items"), errors);
    }
    for (name, child) in &schema.properties {
        walk(child, &format!("{path}.properties[{name}]"), errors);
    }
}

fn one(schema: &Schema, default: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    fields::prune_value(&mut pruned, schema);
    if pruned != *default {
        errors.push(FieldError::invalid(path, shown(default), "must not have unknown fields"));
    }
    let mut found = embedded::check(schema, default, path);
    if found.is_empty() {
        found = check::check(schema, default, "", None).errors(path);
    }
    if found.is_empty() {
        found = Compiled::rules_of(schema, default, path);
    }
    errors.extend(found);
}
