//! Typed values: the algebra of server-side apply (structured-merge-diff).
//!
//! `validation` checks a value against its shape, `to_field_set` returns its fields, `compare` the differences between
//! two values, `merge` combines two values, `remove` removes fields. Where the shape is undefined, the type is deduced
//! from the value: objects are granular, lists are atomic.

mod compare;
mod merge;
mod remove;
mod to_field_set;
mod validation;
mod zero_value;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::{
    compare::{FieldChanges, compare, values_equal},
    merge::merge_typed,
    remove::remove_fields,
    to_field_set::to_field_set,
    validation::{TypeErrors, format_type_errors, validate_typed},
    zero_value::zero_object,
};
use super::field_set::{PathElement, ScalarKey};
use crate::shape::{Field, ListKind, Node, Scalar, Shape};

/// Type of a value, as far as the schema defines it.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef<'a> {
    kind: TypeKind<'a>,
    /// Undeclared fields are preserved, here and below.
    preserves_unknown: bool,
}

#[derive(Debug, Clone, Copy)]
enum TypeKind<'a> {
    Shape(&'a Shape),
    /// Deduced from the value: objects are granular, lists are atomic.
    Deduced,
    /// Atomic, whatever the value.
    Untyped,
}

/// How a value is treated.
pub enum Atom<'a> {
    /// A scalar; `None` is any scalar.
    Scalar(Option<Scalar>),
    /// A list.
    List(ListAtom<'a>),
    /// A struct or a map.
    Map(MapAtom<'a>),
}

/// A list and its type.
#[derive(Clone, Copy)]
pub struct ListAtom<'a> {
    pub items: TypeRef<'a>,
    kind: Option<&'a ListKind>,
}

/// A struct (with `fields`) or a map (with `values`), or both.
#[derive(Clone, Copy)]
pub struct MapAtom<'a> {
    fields: Option<&'a BTreeMap<String, Field>>,
    values: Option<TypeRef<'a>>,
    embedded: bool,
    preserves_unknown: bool,
    pub atomic: bool,
}

const DEDUCED_TYPE: TypeRef<'static> = TypeRef { kind: TypeKind::Deduced, preserves_unknown: false };
const UNTYPED: TypeRef<'static> = TypeRef { kind: TypeKind::Untyped, preserves_unknown: false };

impl<'a> TypeRef<'a> {
    /// The type of a whole object.
    pub fn from_shape(shape: &'a Shape) -> Self {
        Self { kind: TypeKind::Shape(shape), preserves_unknown: false }
    }

    /// How a value of this type is treated. For an undefined type, missing and null values count as objects.
    pub fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self.kind {
            TypeKind::Deduced => deduce_atom(value, DEDUCED_TYPE, false),
            TypeKind::Untyped => deduce_atom(value, UNTYPED, true),
            TypeKind::Shape(shape) => match shape.node() {
                Node::Any => deduce_atom(value, DEDUCED_TYPE, false),
                // kube-apiserver's schema accepts any value here; the conversion checks it later.
                Node::Scalar(Scalar::IntOrString) => deduce_atom(value, UNTYPED, true),
                Node::Scalar(kind) => Atom::Scalar(Some(*kind)),
                Node::List(list) => {
                    let items = Self {
                        kind: TypeKind::Shape(&list.items),
                        preserves_unknown: self.preserves_unknown,
                    };
                    Atom::List(ListAtom { items, kind: Some(&list.kind) })
                }
                Node::Struct(_) | Node::Map(_) => self.map().map_or(Atom::Scalar(None), Atom::Map),
            },
        }
    }

    fn map(self) -> Option<MapAtom<'a>> {
        let TypeKind::Shape(shape) = self.kind else {
            let (values, atomic) =
                if matches!(self.kind, TypeKind::Untyped) { (UNTYPED, true) } else { (DEDUCED_TYPE, false) };
            return Some(MapAtom {
                fields: None,
                values: Some(values),
                embedded: false,
                preserves_unknown: false,
                atomic,
            });
        };
        match shape.node() {
            Node::Any => DEDUCED_TYPE.map(),
            Node::Struct(fields) => {
                let lax = self.preserves_unknown || fields.preserve_unknown_fields;
                Some(MapAtom {
                    fields: Some(&fields.fields),
                    values: (lax || fields.fields.is_empty()).then_some(DEDUCED_TYPE),
                    embedded: fields.embedded,
                    preserves_unknown: lax,
                    atomic: fields.atomic,
                })
            }
            Node::Map(map) => Some(MapAtom {
                fields: None,
                values: Some(Self {
                    kind: TypeKind::Shape(&map.values),
                    preserves_unknown: self.preserves_unknown,
                }),
                embedded: false,
                preserves_unknown: self.preserves_unknown,
                atomic: map.atomic,
            }),
            Node::Scalar(_) | Node::List(_) => None,
        }
    }

    /// Whether a struct field of this name is declared.
    pub fn declares(self, name: &str) -> bool {
        self.map().is_some_and(|map| map.declares(name))
    }

    /// The type at a path element.
    pub fn child(self, element: &PathElement) -> Option<Self> {
        match (element, self.kind) {
            (PathElement::Field(name), _) => self.map()?.field(name),
            (PathElement::Key(_) | PathElement::Value(_) | PathElement::Index(_), TypeKind::Shape(shape)) => {
                shape.items().map(|items| Self {
                    kind: TypeKind::Shape(items),
                    preserves_unknown: self.preserves_unknown,
                })
            }
            _ => None,
        }
    }

    /// Whether it has a single owner, as a scalar or by declaration.
    pub fn has_single_owner(self) -> bool {
        matches!(self.kind, TypeKind::Shape(shape) if matches!(shape.node(), Node::Scalar(_)))
            || self.is_atomic()
    }

    /// Whether it is a composite declared as atomic.
    pub fn is_atomic(self) -> bool {
        let TypeKind::Shape(shape) = self.kind else { return false };
        match shape.node() {
            Node::List(list) => list.kind == ListKind::Atomic,
            Node::Struct(fields) => fields.atomic,
            Node::Map(map) => map.atomic,
            Node::Any | Node::Scalar(_) => false,
        }
    }
}

fn deduce_atom<'a>(value: Option<&Value>, below: TypeRef<'a>, atomic: bool) -> Atom<'a> {
    match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Atom::Scalar(None),
        Some(Value::Array(_)) => Atom::List(ListAtom { items: UNTYPED, kind: None }),
        None | Some(Value::Null | Value::Object(_)) => Atom::Map(MapAtom {
            fields: None,
            values: Some(below),
            embedded: false,
            preserves_unknown: false,
            atomic,
        }),
    }
}

impl Atom<'_> {
    /// Whether both are treated as the same kind of value.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'a> MapAtom<'a> {
    /// The type of a field or key; `None` if it is not allowed.
    pub fn field(&self, name: &str) -> Option<TypeRef<'a>> {
        if let Some(field) = self.fields.and_then(|fields| fields.get(name)) {
            return Some(TypeRef {
                kind: TypeKind::Shape(&field.shape),
                preserves_unknown: self.preserves_unknown,
            });
        }
        if self.embedded && matches!(name, "apiVersion" | "kind" | "metadata") {
            return Some(DEDUCED_TYPE);
        }
        self.values
    }

    /// The type of a field or key that has been validated.
    pub fn field_or_any(&self, name: &str) -> TypeRef<'a> {
        self.field(name).unwrap_or(UNTYPED)
    }

    /// Whether a struct field of this name is declared.
    pub fn declares(&self, name: &str) -> bool {
        self.fields.is_some_and(|fields| fields.contains_key(name))
            || (self.embedded && matches!(name, "apiVersion" | "kind" | "metadata"))
    }
}

impl ListAtom<'_> {
    /// Whether the list has a single owner.
    pub fn is_atomic(&self) -> bool {
        matches!(self.kind, None | Some(ListKind::Atomic))
    }

    /// The path element that identifies an item.
    pub fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.kind {
            Some(ListKind::Map(keys)) => self.key_element(item, keys),
            Some(ListKind::Set) => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(PathElement::Value(ScalarKey::from_value(scalar))),
            },
            None | Some(ListKind::Atomic) => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    fn key_element(&self, item: &Value, keys: &[String]) -> Result<PathElement, String> {
        let map = match item {
            Value::Object(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let fields = self.items.map().and_then(|map| map.fields);
        let default = |key: &String| fields?.get(key)?.default.as_ref().filter(|value| !value.is_null());
        let mut known: Vec<(String, ScalarKey)> = keys
            .iter()
            .filter_map(|key| {
                map.get(key).or_else(|| default(key)).map(|value| (key.clone(), ScalarKey::from_value(value)))
            })
            .collect();
        if known.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| crate::status_error::go_quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        known.sort();
        Ok(PathElement::Key(known))
    }
}
