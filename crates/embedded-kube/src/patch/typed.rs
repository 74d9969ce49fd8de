//! Values seen through their shape: the algebra of server-side apply.
//!
//! `check` says whether a value fits its shape, `gather` which fields it has, `compare` what differs between two values,
//! `merge` puts one on top of the other, `remove` takes fields out. Wherever the shape says nothing, the value itself
//! decides: objects are granular, lists are one piece.

mod check;
mod compare;
mod gather;
mod merge;
mod remove;
mod zero;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::{
    check::{Faults, check, shown_faults},
    compare::{Changes, compare, same},
    gather::gather,
    merge::merge,
    remove::remove,
    zero::zero,
};
use super::fields::{Datum, Element};
use crate::shape::{Field, ListKind, Node, Scalar, Shape};

/// What is known about a value before it is seen.
#[derive(Debug, Clone, Copy)]
pub struct Type<'a> {
    kind: Kind<'a>,
    /// Fields that are not declared are kept, here and below.
    lax: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    Shape(&'a Shape),
    /// Objects are granular, lists are not.
    Deduced,
    /// One piece, whatever it is.
    Piece,
}

/// What a value is taken for.
pub enum Atom<'a> {
    /// A scalar; `None` is any scalar.
    Scalar(Option<Scalar>),
    /// A list.
    List(ListAtom<'a>),
    /// A struct or a map.
    Map(MapAtom<'a>),
}

/// A list and how its items are told apart.
#[derive(Clone, Copy)]
pub struct ListAtom<'a> {
    pub items: Type<'a>,
    kind: Option<&'a ListKind>,
}

/// A struct (with `fields`) or a map (with `values`), or both.
#[derive(Clone, Copy)]
pub struct MapAtom<'a> {
    fields: Option<&'a BTreeMap<String, Field>>,
    values: Option<Type<'a>>,
    embedded: bool,
    lax: bool,
    pub atomic: bool,
}

const DEDUCED: Type<'static> = Type { kind: Kind::Deduced, lax: false };
const PIECE: Type<'static> = Type { kind: Kind::Piece, lax: false };

impl<'a> Type<'a> {
    /// The type of a whole object.
    pub fn of(shape: &'a Shape) -> Self {
        Self { kind: Kind::Shape(shape), lax: false }
    }

    /// What a value of this type is taken for. Where the type leaves it open, nothing and null count as objects.
    pub fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self.kind {
            Kind::Deduced => open(value, DEDUCED, false),
            Kind::Piece => open(value, PIECE, true),
            Kind::Shape(shape) => match shape.node() {
                Node::Any => open(value, DEDUCED, false),
                // The real server's schema takes anything here; what it is comes out when it is converted.
                Node::Scalar(Scalar::IntOrString) => open(value, PIECE, true),
                Node::Scalar(kind) => Atom::Scalar(Some(*kind)),
                Node::List(list) => {
                    let items = Self { kind: Kind::Shape(&list.items), lax: self.lax };
                    Atom::List(ListAtom { items, kind: Some(&list.kind) })
                }
                Node::Struct(_) | Node::Map(_) => self.map().map_or(Atom::Scalar(None), Atom::Map),
            },
        }
    }

    fn map(self) -> Option<MapAtom<'a>> {
        let Kind::Shape(shape) = self.kind else {
            let (values, atomic) =
                if matches!(self.kind, Kind::Piece) { (PIECE, true) } else { (DEDUCED, false) };
            return Some(MapAtom { fields: None, values: Some(values), embedded: false, lax: false, atomic });
        };
        match shape.node() {
            Node::Any => DEDUCED.map(),
            Node::Struct(fields) => {
                let lax = self.lax || fields.keep_unknown;
                Some(MapAtom {
                    fields: Some(&fields.fields),
                    values: (lax || fields.fields.is_empty()).then_some(DEDUCED),
                    embedded: fields.embedded,
                    lax,
                    atomic: fields.atomic,
                })
            }
            Node::Map(map) => Some(MapAtom {
                fields: None,
                values: Some(Self { kind: Kind::Shape(&map.values), lax: self.lax }),
                embedded: false,
                lax: self.lax,
                atomic: map.atomic,
            }),
            Node::Scalar(_) | Node::List(_) => None,
        }
    }

    /// A struct field of this name is declared.
    pub fn declares(self, name: &str) -> bool {
        self.map().is_some_and(|map| map.declares(name))
    }

    /// The type at an element of a path.
    pub fn below(self, element: &Element) -> Option<Self> {
        match (element, self.kind) {
            (Element::Field(name), _) => self.map()?.field(name),
            (Element::Key(_) | Element::Value(_) | Element::Index(_), Kind::Shape(shape)) => {
                shape.items().map(|items| Self { kind: Kind::Shape(items), lax: self.lax })
            }
            _ => None,
        }
    }

    /// Has one owner, as a scalar or by declaration.
    pub fn is_piece(self) -> bool {
        matches!(self.kind, Kind::Shape(shape) if matches!(shape.node(), Node::Scalar(_))) || self.is_atomic()
    }

    /// Has parts, but one owner as a whole, by declaration.
    pub fn is_atomic(self) -> bool {
        let Kind::Shape(shape) = self.kind else { return false };
        match shape.node() {
            Node::List(list) => list.kind == ListKind::Atomic,
            Node::Struct(fields) => fields.atomic,
            Node::Map(map) => map.atomic,
            Node::Any | Node::Scalar(_) => false,
        }
    }
}

fn open<'a>(value: Option<&Value>, below: Type<'a>, atomic: bool) -> Atom<'a> {
    match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Atom::Scalar(None),
        Some(Value::Array(_)) => Atom::List(ListAtom { items: PIECE, kind: None }),
        None | Some(Value::Null | Value::Object(_)) => {
            Atom::Map(MapAtom { fields: None, values: Some(below), embedded: false, lax: false, atomic })
        }
    }
}

impl Atom<'_> {
    /// Both are taken for the same kind of thing.
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'a> MapAtom<'a> {
    /// The type of a field or key; `None` where it may not be.
    pub fn field(&self, name: &str) -> Option<Type<'a>> {
        if let Some(field) = self.fields.and_then(|fields| fields.get(name)) {
            return Some(Type { kind: Kind::Shape(&field.shape), lax: self.lax });
        }
        if self.embedded && matches!(name, "apiVersion" | "kind" | "metadata") {
            return Some(DEDUCED);
        }
        self.values
    }

    /// The type of a field or key that has been checked before.
    pub fn field_or_any(&self, name: &str) -> Type<'a> {
        self.field(name).unwrap_or(PIECE)
    }

    /// A struct field of this name is declared.
    pub fn declares(&self, name: &str) -> bool {
        self.fields.is_some_and(|fields| fields.contains_key(name))
            || (self.embedded && matches!(name, "apiVersion" | "kind" | "metadata"))
    }
}

impl ListAtom<'_> {
    /// Has one owner as a whole.
    pub fn is_atomic(&self) -> bool {
        matches!(self.kind, None | Some(ListKind::Atomic))
    }

    /// What an item is known by.
    pub fn element(&self, item: &Value) -> Result<Element, String> {
        match self.kind {
            Some(ListKind::Map(keys)) => self.keyed(item, keys),
            Some(ListKind::Set) => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::Value(Datum::of(scalar))),
            },
            None | Some(ListKind::Atomic) => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    fn keyed(&self, item: &Value, keys: &[String]) -> Result<Element, String> {
        let map = match item {
            Value::Object(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let fields = self.items.map().and_then(|map| map.fields);
        let default = |key: &String| fields?.get(key)?.default.as_ref().filter(|value| !value.is_null());
        let mut known: Vec<(String, Datum)> = keys
            .iter()
            .filter_map(|key| {
                map.get(key).or_else(|| default(key)).map(|value| (key.clone(), Datum::of(value)))
            })
            .collect();
        if known.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| crate::failure::quoted(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        known.sort();
        Ok(Element::Key(known))
    }
}
