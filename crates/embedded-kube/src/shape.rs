//! Structural types: the fields of an object, the types of its lists, and how they merge.
//!
//! Built-in kinds and custom resources share this model. Everything that depends on structure but not on values uses
//! it: pruning, unknown-field checks, server-side apply, strategic merge, protobuf, `OpenAPI`. Which values are *valid*
//! is defined elsewhere: in `schema` for custom resources, in `kinds` for built-in ones.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

/// A node, owned or from the type table (table entries may be recursive).
#[derive(Debug, Clone)]
pub enum Shape {
    /// Built from a CRD or in code.
    Owned(Arc<Node>),
    /// An entry of the type table; initialized before it is reachable.
    Shared(&'static OnceLock<NamedType>),
}

/// A built-in type with its name.
#[derive(Debug)]
pub struct NamedType {
    /// `OpenAPI` name, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: String,
    /// Its structure.
    pub node: Node,
}

static ANY: Node = Node::Any;

impl Shape {
    /// An owned shape.
    pub fn owned(node: Node) -> Self {
        Self::Owned(Arc::new(node))
    }

    /// The structure.
    pub fn node(&self) -> &Node {
        match self {
            Self::Owned(node) => node,
            Self::Shared(cell) => cell.get().map_or(&ANY, |named| &named.node),
        }
    }

    /// The `OpenAPI` name of a built-in type.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Owned(_) => None,
            Self::Shared(cell) => cell.get().map(|named| named.name.as_str()),
        }
    }

    /// The shape of a field of a struct, or of a map's value.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match self.node() {
            Node::Struct(fields) => fields.fields.get(name).map(|field| &field.shape),
            Node::Map(map) => Some(&map.values),
            _ => None,
        }
    }

    /// The shape of a list's items.
    pub fn items(&self) -> Option<&Self> {
        match self.node() {
            Node::List(list) => Some(&list.items),
            _ => None,
        }
    }
}

/// Structure of one value.
#[derive(Debug, Clone)]
pub enum Node {
    /// Any value; in server-side apply, objects in it are granular and lists are atomic.
    Any,
    /// A scalar.
    Scalar(Scalar),
    /// Named fields.
    Struct(Struct),
    /// Arbitrary keys with values of one shape.
    Map(Map),
    /// A list.
    List(List),
}

/// Scalar types, as far as the wire format or the merge distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// String.
    String,
    /// Base64 text in JSON, bytes in protobuf.
    Bytes,
    /// 32 or 64 bits, signed.
    Integer,
    /// Floating point.
    Number,
    /// Boolean.
    Boolean,
    /// Integer or string (a message in protobuf).
    IntOrString,
    /// A quantity (a message in protobuf).
    Quantity,
    /// RFC 3339 to the second (a message in protobuf).
    Time,
    /// RFC 3339 with microseconds (a message in protobuf).
    MicroTime,
    /// A Go duration as text (a message in protobuf).
    Duration,
}

/// Named fields.
#[derive(Debug, Clone, Default)]
pub struct Struct {
    /// By JSON name.
    pub fields: BTreeMap<String, Field>,
    /// Undeclared fields are preserved (`x-kubernetes-preserve-unknown-fields`) instead of pruned.
    pub preserve_unknown_fields: bool,
    /// Has a single owner (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// `x-kubernetes-embedded-resource`: apiVersion, kind and metadata are always declared.
    pub embedded: bool,
}

/// One field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// Shape of the value.
    pub shape: Shape,
    /// Number in protobuf; 0 where there is none.
    pub number: u32,
    /// Whether it is required (for `OpenAPI`).
    pub required: bool,
    /// Default of the schema.
    pub default: Option<Value>,
    /// Patch strategy of strategic merge (`merge`, `replace`, `retainKeys`).
    pub patch: PatchStrategy,
    /// Whether null is allowed.
    pub nullable: bool,
}

impl Field {
    /// A field with the default settings.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            number: 0,
            required: false,
            default: None,
            patch: PatchStrategy::default(),
            nullable: false,
        }
    }
}

/// `patchStrategy` and `patchMergeKey`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged: by `key` for structs, as sets for scalars.
    pub merge: bool,
    /// Keys that are absent from the patch are dropped.
    pub retain_keys: bool,
    /// Merge key; empty for scalars.
    pub key: String,
}

/// Arbitrary keys.
#[derive(Debug, Clone)]
pub struct Map {
    /// Shape of the values.
    pub values: Shape,
    /// Has a single owner.
    pub atomic: bool,
}

/// A list.
#[derive(Debug, Clone)]
pub struct List {
    /// Shape of the items.
    pub items: Shape,
    /// How items are identified.
    pub kind: ListKind,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Has a single owner.
    Atomic,
    /// Values are unique.
    Set,
    /// Items are identified by these fields.
    Map(Vec<String>),
}
