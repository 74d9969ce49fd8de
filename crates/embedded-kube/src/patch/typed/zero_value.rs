//! The zero value of built-in types.
//!
//! kube-apiserver holds built-in objects as structs: fields that are always encoded exist from the start, so no manager
//! becomes their first owner.

use serde_json::{Map, Value};

use super::TypeRef;
use crate::shape::{Node, Shape};

/// The zero object of a shape; custom resources have only their type.
pub fn zero_object(shape: &Shape, api_version: &str, kind: &str) -> Value {
    let mut object = match shape {
        Shape::Shared(_) => zero_fields(shape),
        Shape::Owned(_) => Map::new(),
    };
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Value::Object(object)
}

fn zero_fields(shape: &Shape) -> Map<String, Value> {
    let Node::Struct(of) = shape.node() else { return Map::new() };
    of.fields
        .iter()
        .filter_map(|(name, field)| {
            let value = match &field.default {
                // Terminates because the type of such a field is not recursive.
                Some(Value::Object(empty)) if empty.is_empty() => match field.shape.node() {
                    Node::Struct(_) => Value::Object(zero_fields(&field.shape)),
                    _ => Value::Null,
                },
                Some(Value::String(text)) if text.is_empty() => text.clone().into(),
                Some(Value::Bool(false)) => false.into(),
                Some(Value::Number(number)) if number.as_i64() == Some(0) => 0.into(),
                // For an atomic value, null and missing are equivalent.
                None if field.required || TypeRef::from_shape(&field.shape).has_single_owner() => Value::Null,
                _ => return None,
            };
            Some((name.clone(), value))
        })
        .collect()
}
