//! Finds and prunes unknown fields. Works on shapes, so it covers custom resources too.

use serde_json::Value;

use crate::shape::{Node, Shape, Struct};

/// Maximum number of reported fields, as in kube-apiserver's decoder.
const MAX_REPORTED: usize = 100;

/// Paths of unknown fields in document order: `spec.foo`, `spec.containers[0].bar`.
pub fn unknown_fields(object: &Value, shape: &Shape) -> Vec<String> {
    let mut found = Vec::new();
    collect_unknown(object, shape, &mut String::new(), &mut found);
    found
}

fn collect_unknown(value: &Value, shape: &Shape, path: &mut String, found: &mut Vec<String>) {
    match (value, shape.node()) {
        (Value::Object(map), Node::Struct(fields)) => {
            for (name, inner) in map {
                let length = enter(path, name);
                match fields.fields.get(name) {
                    Some(field) => collect_unknown(inner, &field.shape, path, found),
                    None if is_kept(fields, name) => {}
                    None if found.len() < MAX_REPORTED => found.push(path.clone()),
                    None => {}
                }
                path.truncate(length);
            }
        }
        (Value::Object(map), Node::Map(values)) if has_parts(&values.values) => {
            for (name, inner) in map {
                let length = enter(path, name);
                collect_unknown(inner, &values.values, path, found);
                path.truncate(length);
            }
        }
        (Value::Array(items), Node::List(list)) if has_parts(&list.items) => {
            for (index, inner) in items.iter().enumerate() {
                let length = path.len();
                path.extend(["[", &index.to_string(), "]"]);
                collect_unknown(inner, &list.items, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn enter(path: &mut String, name: &str) -> usize {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(name);
    length
}

/// Removes unknown fields.
pub fn prune(object: &mut Value, shape: &Shape) {
    match (object, shape.node()) {
        (Value::Object(map), Node::Struct(fields)) => {
            map.retain(|name, inner| match fields.fields.get(name) {
                Some(field) => {
                    prune(inner, &field.shape);
                    true
                }
                None => is_kept(fields, name),
            });
        }
        (Value::Object(map), Node::Map(values)) if has_parts(&values.values) => {
            map.values_mut().for_each(|inner| prune(inner, &values.values));
        }
        (Value::Array(items), Node::List(list)) if has_parts(&list.items) => {
            for inner in items {
                prune(inner, &list.items);
            }
        }
        _ => {}
    }
}

fn is_kept(fields: &Struct, name: &str) -> bool {
    fields.preserve_unknown_fields || fields.embedded && matches!(name, "apiVersion" | "kind" | "metadata")
}

fn has_parts(shape: &Shape) -> bool {
    !matches!(shape.node(), Node::Any | Node::Scalar(_))
}
