//! Values as the real server prints them in its error texts.

use serde_json::{Number, Value};

use crate::failure::quoted;

/// As `%v` prints a decoded value.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => digits(number),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> =
                pairs.into_iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// As `%#v` prints a decoded value.
pub fn detailed(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            format!("[]interface {{}}{{{}}}", list.iter().map(detailed).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> = pairs
                .into_iter()
                .map(|(key, value)| format!("{}:{}", quoted(key), detailed(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
        scalar => plain(scalar),
    }
}

/// The type of a decoded value, as `%T` prints it.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A number as `%v` prints it: floats switch to exponents early.
fn digits(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        None => number.to_string(),
        Some(float) => {
            let exponential = format!("{float:e}");
            let Some((mantissa, exponent)) = exponential.split_once('e') else { return exponential };
            let exponent: i32 = exponent.parse().unwrap_or_default();
            if (-4..6).contains(&exponent) {
                format!("{float}")
            } else {
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{mantissa}e{sign}{:02}", exponent.abs())
            }
        }
    }
}
