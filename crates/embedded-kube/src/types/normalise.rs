//! Normalizes an object as decoding into its Go struct and encoding does: unknown and omittable fields are dropped,
//! always-encoded values are added, times and quantities get their canonical form, fields are in Go's order.

use serde_json::{Map, Value};

use super::{
    canonical::{canonical_bytes, canonical_micro_time, canonical_time},
    go_struct,
    go_struct::{CustomJson, GoField, GoStruct, GoType},
    go_struct_at, schema_props_struct,
};
use crate::{quantity::canonical_quantity, shape::Shape};

/// Converts the object to the form that kube-apiserver stores. Types must have been checked (`check_types`); a value of
/// a wrong type is left unchanged, and so are objects whose shape is not from the type table.
pub fn normalise(object: &mut Value, shape: &Shape) {
    if let (Some(go), Value::Object(map)) = (go_struct(shape), &mut *object) {
        *object = Value::Object(normalise_struct(std::mem::take(map), go));
    }
}

fn normalise_struct(mut map: Map<String, Value>, go: &GoStruct) -> Map<String, Value> {
    let mut out = Map::with_capacity(map.len());
    for field in &go.fields {
        let given = map.swap_remove(field.name);
        // Fast path: most fields are absent and omitted.
        if given.is_none() && field.omit_empty && !is_struct(&field.kind) {
            continue;
        }
        let value = normalise_value(given.unwrap_or(Value::Null), &field.kind);
        if !is_omitted(&value, field) {
            out.insert(field.name.to_owned(), value);
        }
    }
    out
}

/// Go never considers a struct empty.
fn is_struct(kind: &GoType) -> bool {
    matches!(kind, GoType::Struct(_) | GoType::CustomJson(_))
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

fn normalise_value(value: Value, kind: &GoType) -> Value {
    match (value, kind) {
        (Value::Null, GoType::Pointer(_)) => Value::Null,
        (value, GoType::Pointer(inner)) => normalise_value(value, inner),
        (Value::Object(map), GoType::Struct(index)) => match go_struct_at(*index) {
            Some(go) => Value::Object(normalise_struct(map, go)),
            None => Value::Object(map),
        },
        (Value::Array(items), GoType::List { items: kind, .. }) => {
            Value::Array(items.into_iter().map(|item| normalise_value(item, kind)).collect())
        }
        (Value::Object(map), GoType::Map { values, .. }) => Value::Object(
            map.into_iter().map(|(key, value)| (key, normalise_map_value(value, values))).collect(),
        ),
        (Value::Null, kind) => zero_value(kind),
        (Value::Number(number), GoType::Float) => whole(&number).map_or(Value::Number(number), Value::from),
        (Value::String(text), GoType::Bytes) => {
            canonical_bytes(&text).map_or(Value::String(text), Value::from)
        }
        (value, GoType::CustomJson(own)) => normalise_custom_json(value, *own),
        (other, _) => other,
    }
}

/// A map value. Null bytes return from kube-apiserver's storage as empty bytes.
fn normalise_map_value(value: Value, kind: &GoType) -> Value {
    match (value, kind) {
        (Value::Null, GoType::Bytes) => Value::String(String::new()),
        (value, kind) => normalise_value(value, kind),
    }
}

/// A schema, or another value in its place.
fn normalise_schema(value: Value) -> Value {
    match (value, schema_props_struct()) {
        (Value::Object(map), Some(go)) => Value::Object(normalise_struct(map, go)),
        (Value::Array(items), _) => Value::Array(items.into_iter().map(normalise_schema).collect()),
        (other, _) => other,
    }
}

fn normalise_custom_json(value: Value, own: CustomJson) -> Value {
    if matches!(own, CustomJson::OrArray | CustomJson::OrBool | CustomJson::OrStringArray) {
        let is_schema = matches!(
            (&value, own),
            (Value::Object(_), _)
                | (Value::Array(_), CustomJson::OrArray | CustomJson::OrStringArray)
                | (Value::Bool(_), CustomJson::OrBool)
        );
        return if is_schema { normalise_schema(value) } else { Value::Null };
    }
    let better = match (&value, own) {
        (Value::String(text), CustomJson::Quantity) => canonical_quantity(text),
        (Value::Number(number), CustomJson::Quantity) => canonical_quantity(&number.to_string()),
        (Value::String(text), CustomJson::Time) => canonical_time(text),
        (Value::String(text), CustomJson::MicroTime) => canonical_micro_time(text),
        _ => None,
    };
    better.map_or(value, Value::from)
}

/// JSON of Go's zero value.
fn zero_value(kind: &GoType) -> Value {
    match kind {
        GoType::String(..) => "".into(),
        GoType::Bool => false.into(),
        GoType::Int32 | GoType::Int64 | GoType::Float | GoType::CustomJson(CustomJson::IntOrString) => {
            0.into()
        }
        GoType::CustomJson(CustomJson::Quantity) => "0".into(),
        GoType::CustomJson(CustomJson::Duration) => "0s".into(),
        GoType::Struct(index) => {
            go_struct_at(*index).map_or(Value::Null, |go| Value::Object(normalise_struct(Map::new(), go)))
        }
        GoType::Bytes
        | GoType::CustomJson(_)
        | GoType::List { .. }
        | GoType::Map { .. }
        | GoType::Pointer(_) => Value::Null,
    }
}

/// The schema default of a value that is always encoded.
pub fn zero_default(kind: &GoType) -> Value {
    match kind {
        GoType::Pointer(inner) => zero_default(inner),
        GoType::String(..) => "".into(),
        GoType::Bool => false.into(),
        GoType::Int32 | GoType::Int64 | GoType::Float => 0.into(),
        _ => Value::Object(Map::new()),
    }
}

/// Go encodes `5.0` as `5`.
fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "within the exact integers of a float")]
    (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i64)
}
