//! Converts a schema to a shape for merge and apply.

use std::collections::BTreeMap;

use super::parse::{AdditionalProperties, Schema};
use crate::shape::{Field, List, ListKind, Map, Node, Scalar, Shape, Struct};

/// Shape of a whole object, including its type and metadata.
pub fn root_shape(schema: &Schema) -> Shape {
    let mut fields = Struct { embedded: true, ..struct_of(schema) };
    for (name, shape) in meta_fields() {
        fields.fields.insert(name.to_owned(), Field::new(shape));
    }
    Shape::owned(Node::Struct(fields))
}

fn shape_of(schema: &Schema) -> Shape {
    Shape::owned(node_of(schema))
}

fn node_of(schema: &Schema) -> Node {
    if schema.int_or_string {
        return Node::Scalar(Scalar::IntOrString);
    }
    match schema.kind.as_str() {
        "object" => object_node(schema),
        "array" => Node::List(list_of(schema)),
        "string" => Node::Scalar(match schema.format.as_str() {
            "byte" => Scalar::Bytes,
            _ => Scalar::String,
        }),
        "integer" => Node::Scalar(Scalar::Integer),
        "number" => Node::Scalar(Scalar::Number),
        "boolean" => Node::Scalar(Scalar::Boolean),
        // Without a type, preserved values may be anything, but maps in them are granular.
        _ if schema.preserve_unknown_fields => Node::Struct(struct_of(schema)),
        _ => Node::Any,
    }
}

fn object_node(schema: &Schema) -> Node {
    let atomic = schema.map_type.as_deref() == Some("atomic");
    match &schema.additional_properties {
        Some(AdditionalProperties::Schema(values)) if schema.properties.is_empty() => {
            Node::Map(Map { values: shape_of(values), atomic })
        }
        Some(AdditionalProperties::Any(true)) if schema.properties.is_empty() => {
            Node::Map(Map { values: Shape::owned(Node::Any), atomic })
        }
        _ => Node::Struct(struct_of(schema)),
    }
}

fn struct_of(schema: &Schema) -> Struct {
    let fields: BTreeMap<String, Field> = schema
        .properties
        .iter()
        .map(|(name, child)| {
            let field = Field {
                required: schema.required.contains(name),
                default: child.default.clone(),
                nullable: child.nullable,
                ..Field::new(shape_of(child))
            };
            (name.clone(), field)
        })
        .collect();
    let mut result = Struct {
        fields,
        preserve_unknown_fields: schema.preserve_unknown_fields,
        atomic: schema.map_type.as_deref() == Some("atomic"),
        embedded: schema.embedded,
    };
    if schema.embedded {
        for (name, shape) in meta_fields() {
            result.fields.entry(name.to_owned()).or_insert_with(|| Field::new(shape));
        }
    }
    result
}

fn list_of(schema: &Schema) -> List {
    let kind = match schema.list_type.as_deref() {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(schema.list_keys.clone()),
        _ => ListKind::Atomic,
    };
    let items = schema.items.as_deref().map_or_else(|| Shape::owned(Node::Any), shape_of);
    List { items, kind }
}

fn meta_fields() -> [(&'static str, Shape); 3] {
    [("apiVersion", string_shape()), ("kind", string_shape()), ("metadata", object_meta_shape())]
}

fn string_shape() -> Shape {
    Shape::owned(Node::Scalar(Scalar::String))
}

/// `ObjectMeta`, from the type table.
fn object_meta_shape() -> Shape {
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    crate::types::shape_by_model(name).unwrap_or_else(|| Shape::owned(Node::Any))
}
