//! HCL literals: expressions without evaluation, which terraform accepts after `-var name=` for a variable that is not a plain
//! string.

use hcl_edit::{
    Number,
    expr::{Expression, ObjectKey, UnaryOperator},
    template::{Element, Template},
};
use serde_json::{Map, Value};

/// Parses an HCL or JSON literal (HCL is a superset of JSON).
pub(crate) fn parse_literal(text: &str) -> Option<Value> {
    // A top-level expression must not span lines outside brackets, so trim surrounding whitespace.
    text.trim().parse::<Expression>().ok().as_ref().and_then(literal_value)
}

/// Whether a text is a literal.
pub(crate) fn is_literal(text: &str) -> bool {
    parse_literal(text).is_some()
}

/// The value of an expression, if it is a literal.
pub(crate) fn literal_value(expression: &Expression) -> Option<Value> {
    match expression {
        Expression::Null(_) => Some(Value::Null),
        Expression::Bool(value) => Some(Value::from(*value.value())),
        Expression::Number(number) => Some(number_value(number.value())),
        Expression::String(text) => Some(Value::from(text.value().as_str())),
        Expression::Array(items) => {
            items.iter().map(literal_value).collect::<Option<Vec<_>>>().map(Value::from)
        }
        Expression::Object(object) => {
            let entries =
                object.iter().map(|(key, entry)| Some((key_text(key)?, literal_value(entry.expr())?)));
            entries.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        Expression::Parenthesis(inner) => literal_value(inner.inner()),
        Expression::UnaryOp(op) if *op.operator.value() == UnaryOperator::Neg => {
            match literal_value(&op.expr)? {
                Value::Number(number) => negative(&number),
                _ => None,
            }
        }
        Expression::StringTemplate(template) => {
            template.iter().map(literal_element).collect::<Option<String>>().map(Value::from)
        }
        Expression::HeredocTemplate(heredoc) => template_text(&heredoc.template).map(Value::from),
        _ => None,
    }
}

fn template_text(template: &Template) -> Option<String> {
    template.iter().map(literal_element).collect()
}

fn literal_element(element: &Element) -> Option<&str> {
    element.as_literal().map(|text| text.value().as_str())
}

fn key_text(key: &ObjectKey) -> Option<String> {
    match key {
        ObjectKey::Ident(name) => Some(name.as_str().to_owned()),
        ObjectKey::Expression(expression) => match literal_value(expression)? {
            Value::String(text) => Some(text),
            scalar @ (Value::Number(_) | Value::Bool(_)) => Some(scalar.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        },
    }
}

fn number_value(number: &Number) -> Value {
    number
        .as_i64()
        .map(Value::from)
        .or_else(|| number.as_u64().map(Value::from))
        .or_else(|| number.as_f64().map(Value::from))
        .unwrap_or_default()
}

fn negative(number: &serde_json::Number) -> Option<Value> {
    number
        .as_i64()
        .and_then(i64::checked_neg)
        .map(Value::from)
        .or_else(|| number.as_f64().map(|value| Value::from(-value)))
}
