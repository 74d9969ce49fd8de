//! Helpers for JSON values.

use serde_json::Value;

/// The type name in Go's decoder errors.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Nesting depth, 0 for a scalar. Iterative, because the depth is not bounded yet.
pub fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut waiting = vec![(value, 1)];
    while let Some((value, level)) = waiting.pop() {
        match value {
            Value::Object(map) => waiting.extend(map.values().map(|value| (value, level + 1))),
            Value::Array(list) => waiting.extend(list.iter().map(|value| (value, level + 1))),
            _ => continue,
        }
        deepest = deepest.max(level);
    }
    deepest
}
