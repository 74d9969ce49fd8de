//! Go's formatting of values, as in kube-apiserver's error texts.

use serde_json::{Number, Value};

use crate::status_error::go_quote;

/// Formats a decoded value like `%v`.
pub fn format_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => format_number(number),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(format_v).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> =
                pairs.into_iter().map(|(key, value)| format!("{key}:{}", format_v(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// Formats a decoded value like `%#v`.
pub fn format_sharp_v(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => go_quote(text),
        Value::Array(list) => {
            format!("[]interface {{}}{{{}}}", list.iter().map(format_sharp_v).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> = pairs
                .into_iter()
                .map(|(key, value)| format!("{}:{}", go_quote(key), format_sharp_v(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
        scalar => format_v(scalar),
    }
}

/// The type of a decoded value, like `%T`.
pub fn format_type(value: &Value) -> &'static str {
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

/// Formats a number like `%v`: floats switch to exponents early.
fn format_number(number: &Number) -> String {
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
