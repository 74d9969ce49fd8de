//! What becomes of an object that is decoded into its Go struct and written again: unknown fields and empty values are
//! gone, values that are always written are there, times and quantities have one spelling, fields are in Go's order.

use serde_json::{Map, Value};

use super::{
    go::{GoField, GoStruct, GoType, OwnJson},
    go_struct, go_struct_at,
    quantity::canonical_quantity,
    schema,
    text::{canonical_bytes, canonical_micro_time, canonical_time},
};
use crate::shape::Shape;

/// Makes the object what the real server would store. Types must have been checked (`check_types`); a value of a wrong
/// type is left alone, and so are objects whose shape is not from the table.
pub fn normalise(object: &mut Value, shape: &Shape) {
    if let (Some(go), Value::Object(map)) = (go_struct(shape), &mut *object) {
        *object = Value::Object(encoded_struct(std::mem::take(map), go));
    }
}

fn encoded_struct(mut map: Map<String, Value>, go: &GoStruct) -> Map<String, Value> {
    let mut out = Map::with_capacity(map.len());
    for field in &go.fields {
        let given = map.swap_remove(field.name);
        // Most fields are absent, and most of those are left out.
        if given.is_none() && field.omit_empty && !is_struct(&field.kind) {
            continue;
        }
        let value = encoded(given.unwrap_or(Value::Null), &field.kind);
        if !is_omitted(&value, field) {
            out.insert(field.name.to_owned(), value);
        }
    }
    out
}

/// Go never calls a struct empty, whatever is in it.
fn is_struct(kind: &GoType) -> bool {
    matches!(kind, GoType::Struct(_) | GoType::Own(_))
}

fn is_omitted(value: &Value, field: &GoField) -> bool {
    if field.omit_zero && value.is_null() {
        return true;
    }
    if !field.omit_empty || is_struct(&field.kind) {
        return false;
    }
    match (value, &field.kind) {
        (Value::Null, _) => true,
        (_, GoType::Pointer(_)) => false,
        (Value::Bool(yes), _) => !yes,
        (Value::Number(number), _) => number.as_f64() == Some(0.0),
        (Value::String(text), _) => text.is_empty(),
        (Value::Array(items), _) => items.is_empty(),
        (Value::Object(map), _) => map.is_empty(),
    }
}

fn encoded(value: Value, kind: &GoType) -> Value {
    match (value, kind) {
        (Value::Null, GoType::Pointer(_)) => Value::Null,
        (value, GoType::Pointer(inner)) => encoded(value, inner),
        (Value::Object(map), GoType::Struct(index)) => match go_struct_at(*index) {
            Some(go) => Value::Object(encoded_struct(map, go)),
            None => Value::Object(map),
        },
        (Value::Array(items), GoType::List { items: kind, .. }) => {
            Value::Array(items.into_iter().map(|item| encoded(item, kind)).collect())
        }
        (Value::Object(map), GoType::Map { values, .. }) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, stored(value, values))).collect())
        }
        (Value::Null, kind) => zero(kind),
        (Value::Number(number), GoType::Float) => whole(&number).map_or(Value::Number(number), Value::from),
        (Value::String(text), GoType::Bytes) => {
            canonical_bytes(&text).map_or(Value::String(text), Value::from)
        }
        (value, GoType::Own(own)) => encoded_own(value, *own),
        (other, _) => other,
    }
}

/// A value of a map. Bytes that are null come back from the real server's storage as no bytes.
fn stored(value: Value, kind: &GoType) -> Value {
    match (value, kind) {
        (Value::Null, GoType::Bytes) => Value::String(String::new()),
        (value, kind) => encoded(value, kind),
    }
}

/// Values that are a schema, or something else in its place.
fn encoded_schema(value: Value) -> Value {
    match (value, schema()) {
        (Value::Object(map), Some(go)) => Value::Object(encoded_struct(map, go)),
        (Value::Array(items), _) => Value::Array(items.into_iter().map(encoded_schema).collect()),
        (other, _) => other,
    }
}

fn encoded_own(value: Value, own: OwnJson) -> Value {
    if matches!(own, OwnJson::OrArray | OwnJson::OrBool | OwnJson::OrStringArray) {
        let is_schema = matches!(
            (&value, own),
            (Value::Object(_), _)
                | (Value::Array(_), OwnJson::OrArray | OwnJson::OrStringArray)
                | (Value::Bool(_), OwnJson::OrBool)
        );
        return if is_schema { encoded_schema(value) } else { Value::Null };
    }
    let better = match (&value, own) {
        (Value::String(text), OwnJson::Quantity) => canonical_quantity(text),
        (Value::Number(number), OwnJson::Quantity) => canonical_quantity(&number.to_string()),
        (Value::String(text), OwnJson::Time) => canonical_time(text),
        (Value::String(text), OwnJson::MicroTime) => canonical_micro_time(text),
        _ => None,
    };
    better.map_or(value, Value::from)
}

/// JSON of Go's zero value.
fn zero(kind: &GoType) -> Value {
    match kind {
        GoType::String(..) => "".into(),
        GoType::Bool => false.into(),
        GoType::Int32 | GoType::Int64 | GoType::Float | GoType::Own(OwnJson::IntOrString) => 0.into(),
        GoType::Own(OwnJson::Quantity) => "0".into(),
        GoType::Own(OwnJson::Duration) => "0s".into(),
        GoType::Struct(index) => {
            go_struct_at(*index).map_or(Value::Null, |go| Value::Object(encoded_struct(Map::new(), go)))
        }
        GoType::Bytes | GoType::Own(_) | GoType::List { .. } | GoType::Map { .. } | GoType::Pointer(_) => {
            Value::Null
        }
    }
}

/// The default that schemas name for a value that is always written.
pub fn zero_default(kind: &GoType) -> Value {
    match kind {
        GoType::Pointer(inner) => zero_default(inner),
        GoType::String(..) => "".into(),
        GoType::Bool => false.into(),
        GoType::Int32 | GoType::Int64 | GoType::Float => 0.into(),
        _ => Value::Object(Map::new()),
    }
}

/// Go writes `5.0` as `5`.
fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "within the exact integers of a float")]
    (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i64)
}
