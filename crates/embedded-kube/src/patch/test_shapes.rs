//! Small shapes for tests.

use crate::shape::{Field, List, ListKind, Map, Node, PatchStrategy, Scalar, Shape, Struct};

pub fn scalar(kind: Scalar) -> Shape {
    Shape::owned(Node::Scalar(kind))
}

pub fn string() -> Shape {
    scalar(Scalar::String)
}

pub fn integer() -> Shape {
    scalar(Scalar::Integer)
}

pub fn any() -> Shape {
    Shape::owned(Node::Any)
}

pub fn strings() -> Shape {
    map(string())
}

pub fn map(values: Shape) -> Shape {
    Shape::owned(Node::Map(Map { values, atomic: false }))
}

pub fn list(items: Shape, kind: ListKind) -> Shape {
    Shape::owned(Node::List(List { items, kind }))
}

pub fn atomic(items: Shape) -> Shape {
    list(items, ListKind::Atomic)
}

pub fn set(items: Shape) -> Shape {
    list(items, ListKind::Set)
}

pub fn keyed(items: Shape, keys: &[&str]) -> Shape {
    list(items, ListKind::Map(keys.iter().map(|key| (*key).to_owned()).collect()))
}

/// A struct of named fields, for further changes.
pub fn fields(fields: &[(&str, Shape)]) -> Struct {
    let fields = fields.iter().map(|(name, shape)| ((*name).to_owned(), Field::new(shape.clone()))).collect();
    Struct { fields, ..Struct::default() }
}

pub fn structure(named: &[(&str, Shape)]) -> Shape {
    Shape::owned(Node::Struct(fields(named)))
}

/// Sets a merge key (or none, for scalars) on one field.
pub fn merging(mut of: Struct, name: &str, key: &str) -> Struct {
    if let Some(field) = of.fields.get_mut(name) {
        field.patch = PatchStrategy { merge: true, retain_keys: false, key: key.to_owned() };
    }
    of
}

pub fn done(of: Struct) -> Shape {
    Shape::owned(Node::Struct(of))
}

pub fn object_meta() -> Shape {
    structure(&[
        ("name", string()),
        ("namespace", string()),
        ("uid", string()),
        ("resourceVersion", string()),
        ("generation", integer()),
        ("creationTimestamp", scalar(Scalar::Time)),
        ("labels", strings()),
        ("annotations", strings()),
        ("finalizers", set(string())),
        ("managedFields", atomic(any())),
    ])
}

/// Similar to a Deployment, with every list type.
pub fn workload() -> Shape {
    let port = structure(&[("containerPort", integer()), ("protocol", string()), ("name", string())]);
    let container = fields(&[
        ("name", string()),
        ("image", string()),
        ("args", atomic(string())),
        ("env", keyed(structure(&[("name", string()), ("value", string())]), &["name"])),
        ("ports", keyed(port, &["containerPort", "protocol"])),
    ]);
    let container = done(merging(merging(container, "env", "name"), "ports", "containerPort"));
    let spec = fields(&[
        ("replicas", integer()),
        ("paused", scalar(Scalar::Boolean)),
        ("selector", {
            let mut selector = fields(&[("matchLabels", strings())]);
            selector.atomic = true;
            done(selector)
        }),
        ("containers", keyed(container, &["name"])),
        ("tags", set(string())),
        ("order", atomic(string())),
        ("strategy", structure(&[("type", string()), ("rollingUpdate", structure(&[("max", integer())]))])),
        ("extra", any()),
    ]);
    let spec = done(merging(merging(spec, "containers", "name"), "tags", ""));
    let condition = structure(&[("type", string()), ("status", string()), ("message", string())]);
    let status = structure(&[("ready", integer()), ("conditions", keyed(condition, &["type"]))]);
    structure(&[
        ("apiVersion", string()),
        ("kind", string()),
        ("metadata", object_meta()),
        ("spec", spec),
        ("status", status),
        ("data", strings()),
    ])
}

/// The custom resource of the recorded requests.
pub fn thing() -> Shape {
    let mut port = fields(&[("containerPort", integer()), ("protocol", string()), ("name", string())]);
    if let Some(protocol) = port.fields.get_mut("protocol") {
        protocol.default = Some("TCP".into());
    }
    let container = structure(&[
        ("name", string()),
        ("image", string()),
        ("args", atomic(string())),
        ("env", keyed(structure(&[("name", string()), ("value", string())]), &["name"])),
        ("ports", keyed(done(port), &["containerPort", "protocol"])),
    ]);
    let mut selector = fields(&[("matchLabels", strings())]);
    selector.atomic = true;
    let extra = Struct { preserve_unknown_fields: true, ..Struct::default() };
    let spec = structure(&[
        ("replicas", integer()),
        ("paused", scalar(Scalar::Boolean)),
        ("selector", done(selector)),
        ("containers", keyed(container, &["name"])),
        ("tags", set(string())),
        ("order", atomic(string())),
        ("strategy", structure(&[("type", string()), ("rollingUpdate", structure(&[("max", integer())]))])),
        ("extra", done(extra)),
        ("groups", map(structure(&[("size", integer()), ("labels", strings())]))),
    ]);
    let condition = structure(&[("type", string()), ("status", string()), ("message", string())]);
    structure(&[
        ("apiVersion", string()),
        ("kind", string()),
        ("metadata", object_meta()),
        ("spec", spec),
        ("status", structure(&[("ready", integer()), ("conditions", keyed(condition, &["type"]))])),
        ("data", strings()),
    ])
}
