//! Validates embedded resources: type and metadata.

use serde_json::{Map, Value};

use super::{list_validation::child_path, parse::Schema, validation_result::display_value};
use crate::{
    object::{dns1035_label, label_key, label_value, path_segment, qualified_name, type_name},
    status_error::FieldError,
};

/// Validates the types and metadata of embedded resources (not of the root).
pub fn validate_embedded(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, path, &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if schema.embedded {
                validate_resource(map, path, errors);
            }
            for (key, value) in map {
                if let Some(child) = schema.properties.get(key) {
                    walk(child, value, &child_path(path, key), errors);
                } else if let Some(child) = schema.additional_schema() {
                    walk(child, value, &format!("{path}[{key}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    walk(child, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_resource(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let field = child_path(path, key);
        match map.get(key) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(type_meta_error(key, text, &field)),
            Some(other) => errors.push(FieldError::invalid(field, display_value(other), "must be a string")),
        }
    }
    match map.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => validate_metadata(metadata, &child_path(path, "metadata"), errors),
        Some(other) => {
            let detail =
                format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", type_name(other));
            errors.push(FieldError::invalid(child_path(path, "metadata"), display_value(other), detail));
        }
    }
}

fn type_meta_error(key: &str, text: &str, field: &str) -> Option<FieldError> {
    if key == "apiVersion" {
        let detail = format!("unexpected GroupVersion string: {text}");
        return (text.matches('/').count() > 1).then(|| FieldError::invalid(field, text, detail));
    }
    let wrong = dns1035_label(&text.to_lowercase());
    let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
    (!wrong.is_empty()).then(|| FieldError::invalid(field, text, detail))
}

/// Validates the metadata that clients set; server-managed fields are ignored.
fn validate_metadata(metadata: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["generateName", "name", "namespace"] {
        let field = child_path(path, key);
        match metadata.get(key) {
            Some(Value::String(text)) if !text.is_empty() && key != "namespace" => {
                let wrong = path_segment(text);
                errors.extend(
                    wrong.into_iter().map(|detail| FieldError::invalid(&field, text.as_str(), detail)),
                );
            }
            Some(Value::String(text)) if !text.is_empty() => {
                let wrong = crate::object::dns1123_label(text);
                errors.extend(
                    wrong.into_iter().map(|detail| FieldError::invalid(&field, text.as_str(), detail)),
                );
            }
            Some(Value::String(_) | Value::Null) | None => {}
            Some(other) => errors.push(mistyped_error(metadata, path, other, key, "string")),
        }
    }
    for key in ["labels", "annotations"] {
        match metadata.get(key) {
            Some(Value::Object(map)) => validate_string_map(map, key, path, metadata, errors),
            Some(Value::Null) | None => {}
            Some(other) => errors.push(mistyped_error(metadata, path, other, key, "map[string]string")),
        }
    }
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    for finalizer in finalizers.filter_map(Value::as_str) {
        let wrong = qualified_name(finalizer);
        let field = child_path(path, "finalizers");
        errors.extend(wrong.into_iter().map(|detail| FieldError::invalid(&field, finalizer, detail)));
    }
}

fn validate_string_map(
    map: &Map<String, Value>,
    key: &str,
    path: &str,
    metadata: &Map<String, Value>,
    errors: &mut Vec<FieldError>,
) {
    let field = child_path(path, key);
    for (name, value) in map {
        let Value::String(text) = value else {
            if !value.is_null() {
                errors.push(mistyped_error(metadata, path, value, key, "string"));
            }
            continue;
        };
        let lower = if key == "annotations" { name.to_lowercase() } else { name.clone() };
        errors.extend(
            label_key(&lower).into_iter().map(|detail| FieldError::invalid(&field, name.as_str(), detail)),
        );
        if key == "labels" {
            errors.extend(
                label_value(text)
                    .into_iter()
                    .map(|detail| FieldError::invalid(&field, text.as_str(), detail)),
            );
        }
    }
}

fn mistyped_error(
    metadata: &Map<String, Value>,
    path: &str,
    value: &Value,
    key: &str,
    wanted: &str,
) -> FieldError {
    let given = type_name(value);
    let detail =
        format!("json: cannot unmarshal {given} into Go struct field ObjectMeta.{key} of type {wanted}");
    FieldError::invalid(path, display_value(&Value::Object(metadata.clone())), detail)
}
