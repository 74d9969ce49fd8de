//! Converts JSON to CEL values by schema.

use std::{collections::HashMap, sync::Arc};

use base64::Engine as _;
use kube_cel::cel::{
    Value as Cel,
    functions::time,
    objects::{Key, Map, OptionalValue},
};
use serde_json::{Number, Value};

use super::escape;
use crate::schema::{format, parse::Schema};

/// Identifiers of types.
pub const TYPE_NAMES: [&str; 9] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type"];

/// Converts a value: formats become types, property names are escaped.
pub fn to_cel(value: &Value, schema: Option<&Schema>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(yes) => Cel::Bool(*yes),
        Value::Number(given) => number(given, schema),
        Value::String(text) => string(text, schema),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            Cel::List(Arc::new(items.iter().map(|item| to_cel(item, schema)).collect()))
        }
        Value::Object(map) => {
            let is_map = schema
                .is_some_and(|schema| schema.properties.is_empty() && schema.additional_properties.is_some());
            let mut fields = HashMap::with_capacity(map.len());
            for (key, value) in map {
                let name = if is_map { Some(key.clone()) } else { escape(key) };
                if let Some(name) = name {
                    let child = schema.and_then(|schema| schema.child(key));
                    fields.insert(Key::String(Arc::new(name)), to_cel(value, child));
                }
            }
            Cel::Map(Map { map: Arc::new(fields) })
        }
    }
}

fn number(given: &Number, schema: Option<&Schema>) -> Cel {
    let float = given.as_f64().unwrap_or_default();
    let kind = schema.map(|schema| schema.kind.as_str()).unwrap_or_default();
    match given.as_i64() {
        Some(whole) if kind != "number" => Cel::Int(whole),
        #[expect(clippy::cast_possible_truncation, reason = "integers within the range")]
        None if kind == "integer" && float.fract() == 0.0 && float.abs() < 9e18 => Cel::Int(float as i64),
        _ => Cel::Float(float),
    }
}

fn string(text: &str, schema: Option<&Schema>) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let Some(schema) = schema.filter(|schema| schema.kind == "string" && !schema.int_or_string) else {
        return plain();
    };
    match schema.format.as_str() {
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| Cel::Bytes(Arc::new(bytes))),
        "date-time" => time::timestamp(Arc::new(text.to_owned())).unwrap_or_else(|_| plain()),
        "date" => time::timestamp(Arc::new(format!("{text}T00:00:00Z"))).unwrap_or_else(|_| plain()),
        "duration" => match format::parse_duration(text) {
            Some(nanoseconds) => {
                time::duration(Arc::new(format!("{nanoseconds}ns"))).unwrap_or_else(|_| plain())
            }
            None => plain(),
        },
        _ => plain(),
    }
}

/// An optional value.
pub fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Result of `type(value)`; equal to the type identifier of that name.
pub fn type_name(value: &Cel) -> &'static str {
    match value {
        Cel::Bool(_) => "type bool",
        Cel::Int(_) => "type int",
        Cel::UInt(_) => "type uint",
        Cel::Float(_) => "type double",
        Cel::String(_) => "type string",
        Cel::Bytes(_) => "type bytes",
        Cel::List(_) => "type list",
        Cel::Map(_) => "type map",
        Cel::Null => "type null_type",
        _ => "type other",
    }
}

/// Formats a scalar in a message.
pub fn format_scalar(value: &Cel) -> String {
    match value {
        Cel::Int(number) => number.to_string(),
        Cel::UInt(number) => number.to_string(),
        Cel::String(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

/// Size of the largest list or map in a value.
pub fn max_width(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(max_width).max().unwrap_or_default().max(items.len()),
        Value::Object(map) => map.values().map(max_width).max().unwrap_or_default().max(map.len()),
        // A string can be split into that many parts.
        Value::String(text) => text.len() / 8,
        _ => 0,
    }
}
