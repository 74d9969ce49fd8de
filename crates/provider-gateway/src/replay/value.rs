//! Values of resources as providers send them, and their form in a state file.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::wire::{msgpack::Item, protobuf};

/// Nesting beyond this is not decoded.
const MAX_DEPTH: usize = 64;

/// A value of a resource or of one of its attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum ResourceValue {
    /// Not known before the change.
    Unknown,
    /// A value without collections, or an empty one.
    Scalar(Value),
    /// A list, set or tuple.
    List(Vec<Self>),
    /// A map or object.
    Map(BTreeMap<String, Self>),
    /// A value with its type, where the schema leaves the type open.
    Typed(Value, Box<Self>),
}

impl ResourceValue {
    /// Decodes a `DynamicValue` message. `None` if it is invalid.
    pub fn decode(message: &[u8]) -> Option<Self> {
        if let Some(msgpack) = protobuf::bytes_field(message, 1).ok()? {
            return Self::decode_msgpack(msgpack);
        }
        let json = protobuf::bytes_field(message, 2).ok()?.unwrap_or(b"null");
        Some(Self::from_json(serde_json::from_slice(json).ok()?))
    }

    /// Decodes msgpack.
    pub fn decode_msgpack(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let value = Self::read(&mut rest, 0)?;
        rest.is_empty().then_some(value)
    }

    fn read(rest: &mut &[u8], depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        Some(match Item::read(rest)? {
            Item::Nil => Self::Scalar(Value::Null),
            Item::Bool(value) => Self::Scalar(value.into()),
            Item::Integer(value) => Self::Scalar(value.into()),
            Item::Unsigned(value) => Self::Scalar(value.into()),
            Item::Float(value) => Self::Scalar(serde_json::Number::from_f64(value)?.into()),
            Item::Text(text) => Self::Scalar(std::str::from_utf8(text).ok()?.into()),
            Item::Extension => Self::Unknown,
            // Only a type is encoded as bytes, before the value that has it.
            Item::Bytes(_) => return None,
            Item::Array(2) if starts_with_bytes(rest) => {
                let Item::Bytes(kind) = Item::read(rest)? else { return None };
                let kind = serde_json::from_slice(kind).ok()?;
                Self::Typed(kind, Box::new(Self::read(rest, depth + 1)?))
            }
            Item::Array(length) => {
                Self::List((0..length).map(|_| Self::read(rest, depth + 1)).collect::<Option<_>>()?)
            }
            Item::Map(length) => {
                let mut map = BTreeMap::new();
                for _ in 0..length {
                    let Item::Text(key) = Item::read(rest)? else { return None };
                    map.insert(std::str::from_utf8(key).ok()?.to_owned(), Self::read(rest, depth + 1)?);
                }
                Self::Map(map)
            }
        })
    }

    /// A value as it is in a state file.
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from_json).collect()),
            Value::Object(map) => {
                Self::Map(map.into_iter().map(|(key, value)| (key, Self::from_json(value))).collect())
            }
            scalar => Self::Scalar(scalar),
        }
    }

    /// The form of a state file; `None` if something is unknown.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            Self::Unknown => return None,
            Self::Scalar(value) => value.clone(),
            Self::List(items) => Value::Array(items.iter().map(Self::to_json).collect::<Option<_>>()?),
            Self::Map(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| Some((key.clone(), value.to_json()?)))
                    .collect::<Option<_>>()?,
            ),
            Self::Typed(kind, value) => serde_json::json!({ "value": value.to_json()?, "type": kind }),
        })
    }

    /// Whether there is no object.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(Value::Null))
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(map) => map.get(name),
            _ => None,
        }
    }

    /// A string attribute that is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attribute(name)? {
            Self::Scalar(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Whether both are equal wherever both are known.
    pub fn is_compatible_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => true,
            (Self::List(left), Self::List(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(l, r)| l.is_compatible_with(r))
            }
            (Self::Map(left), Self::Map(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, l)| right.get(key).is_some_and(|r| l.is_compatible_with(r)))
            }
            (Self::Typed(kind, left), Self::Typed(other, right)) => {
                kind == other && left.is_compatible_with(right)
            }
            _ => self == other,
        }
    }
}

fn starts_with_bytes(rest: &[u8]) -> bool {
    matches!(rest.first(), Some(0xc4..=0xc6))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_has_the_form_of_a_state_file() {
        let bytes = b"\x86\xa2id\xa5vpc-1\xa4bool\xc3\xa4null\xc0\xa4tags\x81\xa1a\xa1b\xa3set\x92\x01\xcd\x01\x00\xa3big\xcb\x3f\xf8\0\0\0\0\0\0";
        let value = ResourceValue::decode_msgpack(bytes).unwrap();
        let expected = json!({"id": "vpc-1", "bool": true, "null": null, "tags": {"a": "b"}, "set": [1, 256], "big": 1.5});
        assert_eq!(value.to_json(), Some(expected.clone()));
        assert_eq!(ResourceValue::from_json(expected), value);
        assert_eq!(value.text("id"), Some("vpc-1"));
    }

    #[test]
    fn a_value_of_open_type_carries_its_type() {
        let value = ResourceValue::decode_msgpack(b"\x92\xc4\x08\"string\"\xa1a").unwrap();
        assert_eq!(value.to_json(), Some(json!({"value": "a", "type": "string"})));
    }

    #[test]
    fn what_is_unknown_is_compatible_with_everything_and_has_no_form() {
        let unknown = ResourceValue::decode_msgpack(b"\x82\xa1a\xd4\x00\x00\xa1b\x01").unwrap();
        let known = ResourceValue::decode_msgpack(b"\x82\xa1a\xa1x\xa1b\x01").unwrap();
        let other = ResourceValue::decode_msgpack(b"\x82\xa1a\xa1x\xa1b\x02").unwrap();
        assert_eq!(unknown.to_json(), None);
        assert!(unknown.is_compatible_with(&known) && known.is_compatible_with(&unknown));
        assert!(!unknown.is_compatible_with(&other));
        assert_ne!(unknown, known);
    }

    #[test]
    fn both_encodings_of_a_dynamic_value_are_read() {
        let mut msgpack = Vec::new();
        protobuf::put_bytes(&mut msgpack, 1, b"\xc0");
        let mut text = Vec::new();
        protobuf::put_bytes(&mut text, 2, b"{\"id\": \"x\"}");
        assert!(ResourceValue::decode(&msgpack).unwrap().is_null());
        assert!(ResourceValue::decode(b"").unwrap().is_null());
        assert_eq!(ResourceValue::decode(&text).unwrap().text("id"), Some("x"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ResourceValue::decode_msgpack(&value);
        }
    }
}
