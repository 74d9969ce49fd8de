//! A [`Value`] read in one pass that remembers which keys came twice.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Where we are, as a chain of borrowed steps: a path is only spelled out when something is wrong.
enum Step<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Step<'_> {
    fn spell(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.spell(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Self::Item(parent, index) => {
                parent.spell(out);
                out.extend(["[", &index.to_string(), "]"]);
            }
        }
    }
}

static ROOT: Step<'static> = Step::Root;

/// Reads a value and notes duplicate keys.
pub struct Seen<'a> {
    at: &'a Step<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'a> Seen<'a> {
    /// At the top of a document.
    pub fn root(duplicates: &'a mut Vec<String>) -> Self {
        Self { at: &ROOT, duplicates }
    }
}

impl<'de> DeserializeSeed<'de> for Seen<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seen<'_> {
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
        // Beyond 64 signed bits the real server knows only floats.
        Ok(match i64::try_from(value) {
            Ok(value) => Value::Number(value.into()),
            #[expect(clippy::cast_precision_loss, reason = "this is what a float is")]
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
            let at = Step::Item(self.at, items.len());
            let seed = Seen { at: &at, duplicates: &mut *self.duplicates };
            match access.next_element_seed(seed)? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let at = Step::Field(self.at, &key);
            let value = access.next_value_seed(Seen { at: &at, duplicates: &mut *self.duplicates })?;
            if fields.contains_key(&key) {
                let mut path = String::new();
                at.spell(&mut path);
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
