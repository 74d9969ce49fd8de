//! One step of a path.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

use crate::failure::quoted;

/// One step of a path. The order of the variants is the order on the wire.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of a struct or a key of a map.
    Field(String),
    /// An item of a list of objects, by its keys, which are sorted.
    Key(Vec<(String, Datum)>),
    /// An item of a set.
    Value(Datum),
    /// An item of any other list.
    Index(i64),
}

/// A value that tells items apart; ordered as the real server orders them.
#[derive(Debug, Clone)]
pub struct Datum(Value);

impl Datum {
    /// Numbers that are equal become the same, whether they were written with a fraction or without.
    pub fn of(value: &Value) -> Self {
        Self(match value {
            Value::Number(number) => Value::Number(whole(number)),
            other => other.clone(),
        })
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "only whole numbers that fit are turned"
)]
fn whole(number: &Number) -> Number {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.trunc() == float && float.abs() < 9e15 => Number::from(float as i64),
        _ => number.clone(),
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Datum {}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.0, &other.0)
    }
}

fn order(one: &Value, two: &Value) -> Ordering {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => numbers(one, two),
        (Value::String(one), Value::String(two)) => one.cmp(two),
        (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
        (Value::Array(one), Value::Array(two)) => {
            let unequal = one.iter().zip(two).map(|(one, two)| order(one, two)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| one.len().cmp(&two.len()))
        }
        (Value::Object(one), Value::Object(two)) => {
            let sorted = |map: &serde_json::Map<String, Value>| {
                let mut pairs: Vec<_> =
                    map.iter().map(|(key, value)| (key.clone(), Datum::of(value))).collect();
                pairs.sort();
                pairs
            };
            sorted(one).cmp(&sorted(two))
        }
        _ => rank(one).cmp(&rank(two)),
    }
}

fn numbers(one: &Number, two: &Number) -> Ordering {
    if let (Some(one), Some(two)) = (one.as_i64(), two.as_i64()) {
        return one.cmp(&two);
    }
    if let (Some(one), Some(two)) = (one.as_u64(), two.as_u64()) {
        return one.cmp(&two);
    }
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    float(one).total_cmp(&float(two)).then_with(|| one.is_f64().cmp(&two.is_f64()))
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", shown(&value.0))).collect();
                write!(out, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(out, "[={}]", shown(&value.0)),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect();
            pairs.concat()
        }
        scalar => super::super::words::plain(scalar),
    }
}
