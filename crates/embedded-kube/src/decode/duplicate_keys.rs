//! Deserializes a [`Value`] and collects duplicate keys in one pass.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Current position as a chain of borrowed steps: the path is only formatted for an error.
enum JsonPathStep<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl JsonPathStep<'_> {
    fn write_path(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write_path(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Self::Item(parent, index) => {
                parent.write_path(out);
                out.extend(["[", &index.to_string(), "]"]);
            }
        }
    }
}

static ROOT: JsonPathStep<'static> = JsonPathStep::Root;

/// Deserializes a value and records duplicate keys.
pub struct ValueWithDuplicates<'a> {
    path: &'a JsonPathStep<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'a> ValueWithDuplicates<'a> {
    /// At the root of a document.
    pub fn root(duplicates: &'a mut Vec<String>) -> Self {
        Self { path: &ROOT, duplicates }
    }
}

impl<'de> DeserializeSeed<'de> for ValueWithDuplicates<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueWithDuplicates<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        // kube-apiserver represents integers beyond `i64` as floats.
        Ok(match i64::try_from(value) {
            Ok(value) => Value::Number(value.into()),
            #[expect(clippy::cast_precision_loss, reason = "kube-apiserver loses the same precision")]
            Err(_) => float(value as f64),
        })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let at = JsonPathStep::Item(self.path, items.len());
            let seed = ValueWithDuplicates { path: &at, duplicates: &mut *self.duplicates };
            match access.next_element_seed(seed)? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let at = JsonPathStep::Field(self.path, &key);
            let value = access
                .next_value_seed(ValueWithDuplicates { path: &at, duplicates: &mut *self.duplicates })?;
            if fields.contains_key(&key) {
                let mut path = String::new();
                at.write_path(&mut path);
                self.duplicates.push(path);
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
