//! Validates the defaults of a schema.

use serde_json::Value;

use super::{
    CompiledSchema, embedded, parse::Schema, prune_and_default, validation_result::display_value,
    value_validation,
};
use crate::status_error::FieldError;

/// Validates all defaults of a schema at `path` in its CRD.
pub fn validate_defaults(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, path, &mut errors);
    errors
}

fn walk(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        validate_default(schema, default, &format!("{path}.default"), errors);
    }
    if let Some(items) = schema.items.as_deref() {
        walk(items, &format!("{path}.items"), errors);
    }
    for (name, child) in &schema.properties {
        walk(child, &format!("{path}.properties[{name}]"), errors);
    }
}

fn validate_default(schema: &Schema, default: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune_and_default::prune_value(&mut pruned, schema);
    if pruned != *default {
        errors.push(FieldError::invalid(path, display_value(default), "must not have unknown fields"));
    }
    let mut found = embedded::validate_embedded(schema, default, path);
    if found.is_empty() {
        found = value_validation::validate_value(schema, default, "", None).into_field_errors(path);
    }
    if found.is_empty() {
        found = CompiledSchema::validate_by_own_rules(schema, default, path);
    }
    errors.extend(found);
}
