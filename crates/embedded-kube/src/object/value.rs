//! What a JSON value is, whatever it means.

use serde_json::Value;

/// What Go's decoder, and so the real server, calls the type of a value.
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

/// Levels of objects and lists, 0 for a scalar. By a stack of our own: the depth is what is in doubt.
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
