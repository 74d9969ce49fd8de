//! Embedded resources: they carry a type, and their metadata is metadata.

use serde_json::{Map, Value};

use super::{lists::below, parse::Schema, verdict::shown};
use crate::{
    failure::FieldError,
    object::{dns1035_label, label_key, label_value, path_segment, qualified_name, type_name},
};

/// Faults of the types and metadata of embedded resources (not of the root).
pub fn check(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, path, &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if schema.embedded {
                resource(map, path, errors);
            }
            for (key, value) in map {
                if let Some(child) = schema.properties.get(key) {
                    walk(child, value, &below(path, key), errors);
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

fn resource(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let field = below(path, key);
        match map.get(key) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(type_fault(key, text, &field)),
            Some(other) => errors.push(FieldError::invalid(field, shown(other), "must be a string")),
        }
    }
    match map.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => meta(metadata, &below(path, "metadata"), errors),
        Some(other) => {
            let detail =
                format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", type_name(other));
            errors.push(FieldError::invalid(below(path, "metadata"), shown(other), detail));
        }
    }
}

fn type_fault(key: &str, text: &str, field: &str) -> Option<FieldError> {
    if key == "apiVersion" {
        let detail = format!("unexpected GroupVersion string: {text}");
        return (text.matches('/').count() > 1).then(|| FieldError::invalid(field, text, detail));
    }
    let wrong = dns1035_label(&text.to_lowercase());
    let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
    (!wrong.is_empty()).then(|| FieldError::invalid(field, text, detail))
}

/// The parts of metadata that a client may get wrong; what only the server writes is not looked at.
fn meta(metadata: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["generateName", "name", "namespace"] {
        let field = below(path, key);
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
            Some(other) => errors.push(mistyped(metadata, path, other, key, "string")),
        }
    }
    for key in ["labels", "annotations"] {
        match metadata.get(key) {
            Some(Value::Object(map)) => pairs(map, key, path, metadata, errors),
            Some(Value::Null) | None => {}
            Some(other) => errors.push(mistyped(metadata, path, other, key, "map[string]string")),
        }
    }
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    for finalizer in finalizers.filter_map(Value::as_str) {
        let wrong = qualified_name(finalizer);
        let field = below(path, "finalizers");
        errors.extend(wrong.into_iter().map(|detail| FieldError::invalid(&field, finalizer, detail)));
    }
}

fn pairs(
    map: &Map<String, Value>,
    key: &str,
    path: &str,
    metadata: &Map<String, Value>,
    errors: &mut Vec<FieldError>,
) {
    let field = below(path, key);
    for (name, value) in map {
        let Value::String(text) = value else {
            if !value.is_null() {
                errors.push(mistyped(metadata, path, value, key, "string"));
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

fn mistyped(metadata: &Map<String, Value>, path: &str, value: &Value, key: &str, wanted: &str) -> FieldError {
    let given = type_name(value);
    let detail =
        format!("json: cannot unmarshal {given} into Go struct field ObjectMeta.{key} of type {wanted}");
    FieldError::invalid(path, shown(&Value::Object(metadata.clone())), detail)
}
