//! Built-in Kubernetes types: fields, merge strategies and wire formats.
//!
//! Everything comes from one generated table (`types/table.txt`, written by `scripts/real-kube types`), parsed on first
//! use. [`shape_of`] returns the structure that the other modules use; [`normalise`], [`check_types`] and
//! [`from_protobuf`] reproduce what decoding into a Go struct does beyond that.

mod canonical;
mod go_struct;
mod go_time;
mod normalise;
mod protobuf;
mod protobuf_wire;
mod type_check;
mod type_table;
mod unknown_fields;

#[cfg(test)]
mod tests;

pub use self::{
    go_struct::{CustomJson, GoField, GoStruct, GoType},
    normalise::normalise,
    protobuf::{ExpectedKind, from_protobuf},
    type_check::check_types,
    unknown_fields::{prune, unknown_fields},
};
use crate::shape::Shape;

/// Shape of a built-in kind, lists included. Kinds shared by all groups (`DeleteOptions`, `Status`) are found in each.
pub fn shape_of(group: &str, version: &str, kind: &str) -> Option<Shape> {
    type_table::type_table().kind(group, version, kind).map(|index| type_table::type_table().shape(index))
}

/// Shape of a built-in type by its `OpenAPI` name, such as `io.k8s.api.core.v1.PodSpec`.
pub fn shape_by_model(name: &str) -> Option<Shape> {
    type_table::type_table().index_of(name).map(|index| type_table::type_table().shape(index))
}

/// The Go struct behind a shape; `None` for shapes of custom resources.
pub fn go_struct(shape: &Shape) -> Option<&'static GoStruct> {
    shape.name().and_then(|name| type_table::type_table().index_of(name)).and_then(go_struct_at)
}

/// The Go struct that a [`GoType::Struct`] names.
pub fn go_struct_at(index: usize) -> Option<&'static GoStruct> {
    type_table::type_table().structs.get(index)
}

/// The Go struct of `JSONSchemaProps`, which is recursive in several ways.
fn schema_props_struct() -> Option<&'static GoStruct> {
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    type_table::type_table().index_of(name).and_then(go_struct_at)
}
