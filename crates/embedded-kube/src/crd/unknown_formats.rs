//! Warns about schema formats that the server ignores.

use serde_json::Value;

use super::accessors;
use crate::{
    object::{get_path, str_at},
    schema::is_supported_format,
};

/// Unknown formats of all versions, deduplicated by schema.
pub fn unknown_formats(crd: &Value) -> Vec<String> {
    let schemas: Vec<&Value> = accessors::versions(crd)
        .iter()
        .filter_map(|version| get_path(version, &["schema", "openAPIV3Schema"]))
        .collect();
    let same = schemas.first().is_some_and(|first| schemas.iter().all(|schema| schema == first));
    let count = if same { 1 } else { schemas.len() };
    let mut found = Vec::new();
    for schema in schemas.into_iter().take(count) {
        walk(schema, &mut found);
    }
    found
}

fn walk(schema: &Value, found: &mut Vec<String>) {
    let (kind, format) = (str_at(schema, &["type"]), str_at(schema, &["format"]));
    if !format.is_empty() && !is_supported_format(kind, format) {
        found.push(format.to_owned());
    }
    for key in ["items", "not", "additionalProperties"] {
        if let Some(child @ Value::Object(_)) = schema.get(key) {
            walk(child, found);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for child in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            walk(child, found);
        }
    }
    for child in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.values())
    {
        walk(child, found);
    }
}
