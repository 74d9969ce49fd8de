//! The built-in types of Kubernetes: what their fields are called, how they merge, how they travel.
//!
//! All of it comes from one generated table (`types/table.txt`, made by `scripts/real-kube types`), read once on first
//! use. [`shape_of`] gives the structure that every room works on; [`normalise`], [`check_types`] and [`from_protobuf`]
//! do what decoding into a Go struct does, which a structure alone does not tell.

mod decode;
mod go;
mod normalise;
mod protobuf;
mod quantity;
mod table;
mod text;
mod time;
mod unknown;
mod wire;

#[cfg(test)]
mod tests;

pub use self::{
    decode::check_types,
    go::{GoField, GoStruct, GoType, OwnJson},
    normalise::normalise,
    protobuf::{Expected, from_protobuf},
    unknown::{prune, unknown_fields},
};
use crate::shape::Shape;

/// The structure of a built-in kind, lists included. Kinds of all groups (`DeleteOptions`, `Status`) are found in each.
pub fn shape_of(group: &str, version: &str, kind: &str) -> Option<Shape> {
    table::get().kind(group, version, kind).map(|index| table::get().shape(index))
}

/// The structure of a built-in type by its `OpenAPI` name, such as `io.k8s.api.core.v1.PodSpec`.
pub fn named(name: &str) -> Option<Shape> {
    table::get().index_of(name).map(|index| table::get().shape(index))
}

/// The Go struct behind a shape; `None` for shapes of custom resources.
pub fn go_struct(shape: &Shape) -> Option<&'static GoStruct> {
    shape.name().and_then(|name| table::get().index_of(name)).and_then(go_struct_at)
}

/// The Go struct that a [`GoType::Struct`] names.
pub fn go_struct_at(index: usize) -> Option<&'static GoStruct> {
    table::get().structs.get(index)
}

/// The Go struct of a schema in a CRD, which holds itself in several disguises.
fn schema() -> Option<&'static GoStruct> {
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    table::get().index_of(name).and_then(go_struct_at)
}
