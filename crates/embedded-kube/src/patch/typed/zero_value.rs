//! An object of a built-in type before anything is set.
//!
//! The real server holds built-in objects as structs: fields that are written even when empty are there from the start,
//! so nobody is the first to set them.

use serde_json::{Map, Value};

use super::Type;
use crate::shape::{Node, Shape};

/// The empty object of a shape; custom resources have nothing but their type.
pub fn zero(shape: &Shape, api_version: &str, kind: &str) -> Value {
    let mut object = match shape {
        Shape::Shared(_) => fields(shape),
        Shape::Own(_) => Map::new(),
    };
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Value::Object(object)
}

fn fields(shape: &Shape) -> Map<String, Value> {
    let Node::Struct(of) = shape.node() else { return Map::new() };
    of.fields
        .iter()
        .filter_map(|(name, field)| {
            let value = match &field.default {
                // The type of such a field cannot hold itself, so this ends.
                Some(Value::Object(empty)) if empty.is_empty() => match field.shape.node() {
                    Node::Struct(_) => Value::Object(fields(&field.shape)),
                    _ => Value::Null,
                },
                Some(Value::String(text)) if text.is_empty() => text.clone().into(),
                Some(Value::Bool(false)) => false.into(),
                Some(Value::Number(number)) if number.as_i64() == Some(0) => 0.into(),
                // For one piece it does not matter whether it is null or missing.
                None if field.required || Type::of(&field.shape).is_piece() => Value::Null,
                _ => return None,
            };
            Some((name.clone(), value))
        })
        .collect()
}
