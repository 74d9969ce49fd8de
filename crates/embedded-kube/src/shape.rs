//! The shape of an object: which fields it has, what its lists are, how they merge.
//!
//! Built-in kinds and custom resources both come down to this one model. Everything that must know structure but not
//! meaning works on it: pruning and unknown-field checks, server-side apply, strategic merge, protobuf, `OpenAPI`.
//! What values are *allowed* is not here: that is `schema` for custom resources and `kinds` for built-in ones.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

/// A node, owned or from the table of built-in types (those may refer to themselves).
#[derive(Debug, Clone)]
pub enum Shape {
    /// Made from a CRD, or by hand.
    Own(Arc<Node>),
    /// An entry of the table of built-in types; filled before anybody can see it.
    Shared(&'static OnceLock<Named>),
}

/// A built-in type with its name.
#[derive(Debug)]
pub struct Named {
    /// `OpenAPI` name, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: String,
    /// Its structure.
    pub node: Node,
}

static ANY: Node = Node::Any;

impl Shape {
    /// An owned shape.
    pub fn own(node: Node) -> Self {
        Self::Own(Arc::new(node))
    }

    /// The structure itself.
    pub fn node(&self) -> &Node {
        match self {
            Self::Own(node) => node,
            Self::Shared(cell) => cell.get().map_or(&ANY, |named| &named.node),
        }
    }

    /// The type's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Own(_) => None,
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
    /// Anything at all; in server-side apply objects in it are granular, lists are one piece.
    Any,
    /// A value without parts.
    Scalar(Scalar),
    /// Named fields.
    Struct(Struct),
    /// Free keys, one shape of values.
    Map(Map),
    /// A list.
    List(List),
}

/// Scalars, told apart where the wire or the merge needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Base64 text in JSON, bytes in protobuf.
    Bytes,
    /// 32 or 64 bits, signed.
    Integer,
    /// A float.
    Number,
    /// Yes or no.
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
    /// Fields that are not named are kept (`x-kubernetes-preserve-unknown-fields`) instead of dropped.
    pub keep_unknown: bool,
    /// One owner for the whole (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// `x-kubernetes-embedded-resource`: apiVersion, kind and metadata are always known here.
    pub embedded: bool,
}

/// One field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its value.
    pub shape: Shape,
    /// Number in protobuf; 0 where there is none.
    pub number: u32,
    /// Must be there (for `OpenAPI`).
    pub required: bool,
    /// What the schema gives when it is missing.
    pub default: Option<Value>,
    /// Strategic merge: strategies (`merge`, `replace`, `retainKeys`) of this field.
    pub patch: Patch,
    /// `oneof`-like unions and inline structs need nothing here: inline fields are listed as the parent's own.
    pub nullable: bool,
}

impl Field {
    /// A plain field.
    pub fn of(shape: Shape) -> Self {
        Self { shape, number: 0, required: false, default: None, patch: Patch::default(), nullable: false }
    }
}

/// `patchStrategy` and `patchMergeKey`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists merge, by `key` for structs and as sets for scalars.
    pub merge: bool,
    /// Keys that the patch does not name are dropped.
    pub retain_keys: bool,
    /// Merge key; empty for scalars.
    pub key: String,
}

/// Free keys.
#[derive(Debug, Clone)]
pub struct Map {
    /// Shape of the values.
    pub values: Shape,
    /// One owner for the whole.
    pub atomic: bool,
}

/// A list.
#[derive(Debug, Clone)]
pub struct List {
    /// Shape of the items.
    pub items: Shape,
    /// How items are told apart.
    pub kind: ListKind,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// One owner for the whole.
    Atomic,
    /// Each value once.
    Set,
    /// Items told apart by these fields.
    Map(Vec<String>),
}
