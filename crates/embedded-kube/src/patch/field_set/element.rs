//! One element of a field path.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

use crate::status_error::go_quote;

/// One element of a field path. The variants are in wire order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of a struct or a key of a map.
    Field(String),
    /// A list item identified by its sorted keys.
    Key(Vec<(String, ScalarKey)>),
    /// An item of a set.
    Value(ScalarKey),
    /// An item of any other list.
    Index(i64),
}

/// A value that identifies an item; ordered as in kube-apiserver.
#[derive(Debug, Clone)]
pub struct ScalarKey(Value);

impl ScalarKey {
    /// Normalizes numbers, so that `1` and `1.0` are equal.
    pub fn from_value(value: &Value) -> Self {
        Self(match value {
            Value::Number(number) => Value::Number(normalise_number(number)),
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
    reason = "only integers that fit are converted"
)]
fn normalise_number(number: &Number) -> Number {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.trunc() == float && float.abs() < 9e15 => Number::from(float as i64),
        _ => number.clone(),
    }
}

impl PartialEq for ScalarKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScalarKey {}

impl PartialOrd for ScalarKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScalarKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_values(&self.0, &other.0)
    }
}

fn compare_values(one: &Value, two: &Value) -> Ordering {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => compare_numbers(one, two),
        (Value::String(one), Value::String(two)) => one.cmp(two),
        (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
        (Value::Array(one), Value::Array(two)) => {
            let unequal =
                one.iter().zip(two).map(|(one, two)| compare_values(one, two)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| one.len().cmp(&two.len()))
        }
        (Value::Object(one), Value::Object(two)) => {
            let sorted = |map: &serde_json::Map<String, Value>| {
                let mut pairs: Vec<_> =
                    map.iter().map(|(key, value)| (key.clone(), ScalarKey::from_value(value))).collect();
                pairs.sort();
                pairs
            };
            sorted(one).cmp(&sorted(two))
        }
        _ => type_rank(one).cmp(&type_rank(two)),
    }
}

fn compare_numbers(one: &Number, two: &Number) -> Ordering {
    if let (Some(one), Some(two)) = (one.as_i64(), two.as_i64()) {
        return one.cmp(&two);
    }
    if let (Some(one), Some(two)) = (one.as_u64(), two.as_u64()) {
        return one.cmp(&two);
    }
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    float(one).total_cmp(&float(two)).then_with(|| one.is_f64().cmp(&two.is_f64()))
}

fn type_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", display_value(&value.0))).collect();
                write!(out, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(out, "[={}]", display_value(&value.0)),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => go_quote(text),
        Value::Array(list) => format!("[{}]", list.iter().map(display_value).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}={}", display_value(value))).collect();
            pairs.concat()
        }
        scalar => super::super::go_fmt::format_v(scalar),
    }
}
