//! The structure of a schema as the rooms that merge and apply want it.

use std::collections::BTreeMap;

use super::parse::{Additional, Schema};
use crate::shape::{Field, List, ListKind, Map, Node, Scalar, Shape, Struct};

/// The shape of a whole object: its type and metadata are always there.
pub fn root(schema: &Schema) -> Shape {
    let mut fields = Struct { embedded: true, ..structure(schema) };
    for (name, shape) in meta_fields() {
        fields.fields.insert(name.to_owned(), Field::of(shape));
    }
    Shape::own(Node::Struct(fields))
}

fn shape(schema: &Schema) -> Shape {
    Shape::own(node(schema))
}

fn node(schema: &Schema) -> Node {
    if schema.int_or_string {
        return Node::Scalar(Scalar::IntOrString);
    }
    match schema.kind.as_str() {
        "object" => object(schema),
        "array" => Node::List(list(schema)),
        "string" => Node::Scalar(match schema.format.as_str() {
            "byte" => Scalar::Bytes,
            _ => Scalar::String,
        }),
        "integer" => Node::Scalar(Scalar::Integer),
        "number" => Node::Scalar(Scalar::Number),
        "boolean" => Node::Scalar(Scalar::Boolean),
        // Without a type, what is kept may be anything, but maps in it still have one owner per key.
        _ if schema.keep_unknown => Node::Struct(structure(schema)),
        _ => Node::Any,
    }
}

fn object(schema: &Schema) -> Node {
    let atomic = schema.map_type.as_deref() == Some("atomic");
    match &schema.additional {
        Some(Additional::Schema(values)) if schema.properties.is_empty() => {
            Node::Map(Map { values: shape(values), atomic })
        }
        Some(Additional::Any(true)) if schema.properties.is_empty() => {
            Node::Map(Map { values: Shape::own(Node::Any), atomic })
        }
        _ => Node::Struct(structure(schema)),
    }
}

fn structure(schema: &Schema) -> Struct {
    let fields: BTreeMap<String, Field> = schema
        .properties
        .iter()
        .map(|(name, child)| {
            let field = Field {
                required: schema.required.contains(name),
                default: child.default.clone(),
                nullable: child.nullable,
                ..Field::of(shape(child))
            };
            (name.clone(), field)
        })
        .collect();
    let mut result = Struct {
        fields,
        keep_unknown: schema.keep_unknown,
        atomic: schema.map_type.as_deref() == Some("atomic"),
        embedded: schema.embedded,
    };
    if schema.embedded {
        for (name, shape) in meta_fields() {
            result.fields.entry(name.to_owned()).or_insert_with(|| Field::of(shape));
        }
    }
    result
}

fn list(schema: &Schema) -> List {
    let kind = match schema.list_type.as_deref() {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(schema.list_keys.clone()),
        _ => ListKind::Atomic,
    };
    let items = schema.items.as_deref().map_or_else(|| Shape::own(Node::Any), shape);
    List { items, kind }
}

fn meta_fields() -> [(&'static str, Shape); 3] {
    [("apiVersion", text()), ("kind", text()), ("metadata", object_meta())]
}

fn text() -> Shape {
    Shape::own(Node::Scalar(Scalar::String))
}

/// `ObjectMeta`, from the table of built-in types.
fn object_meta() -> Shape {
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    crate::types::named(name).unwrap_or_else(|| Shape::own(Node::Any))
}
