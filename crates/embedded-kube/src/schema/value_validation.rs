//! Validates values against a schema, with kube-apiserver's error texts.

use serde_json::{Map, Value};

use super::{
    correlate::CorrelatedValue,
    format, number,
    parse::{AdditionalProperties, Schema},
    validation_result::{ValidationError, ValidationResult, display_value},
};
use crate::status_error::{FieldErrorKind, go_quote};

/// Validates a value at `path` (as in messages, empty for the root). With an old value, errors in unchanged parts are
/// dropped.
pub fn validate_value(
    schema: &Schema,
    value: &Value,
    path: &str,
    pair: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let verdict = validate_uncorrelated(schema, value, path, pair);
    if !verdict.is_valid() && pair.is_some_and(CorrelatedValue::is_unchanged) {
        return ValidationResult { errors: Vec::new(), matches: verdict.matches };
    }
    verdict
}

fn validate_uncorrelated(
    schema: &Schema,
    value: &Value,
    path: &str,
    pair: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let mut verdict = ValidationResult::default();
    let types = schema.types();
    let format = format::supported_format(schema);
    if value.is_null() {
        if types.is_empty() || schema.nullable {
            verdict.matches += 1;
        } else {
            verdict.add(wrong_type_error(path, &types.join(","), "null"));
        }
        validate_enum(schema, value, path, &mut verdict);
        return verdict;
    }
    if !types.is_empty() || format.is_some() {
        match type_error(schema, value, path, format) {
            Some(fault) => verdict.add(fault),
            None => verdict.matches += 1,
        }
        verdict.matches += 1;
    }
    verdict.merge(validate_combinators(schema, value, path));
    verdict.matches += 1;
    validate_by_type(schema, value, path, pair, &mut verdict);
    verdict.matches += 1;
    verdict
}

fn validate_by_type(
    schema: &Schema,
    value: &Value,
    path: &str,
    pair: Option<CorrelatedValue<'_>>,
    verdict: &mut ValidationResult,
) {
    match value {
        Value::String(text) => {
            if let Some(fault) = validate_string(schema, text, path) {
                verdict.add(fault);
            }
            verdict.matches += 1;
            if let Some(name) = format::supported_format(schema).filter(|name| format::is_known(name)) {
                if !format::is_valid(name, text) {
                    verdict.add(wrong_type_error(path, &schema.format, text));
                }
                verdict.matches += 1;
            }
        }
        Value::Number(given) => {
            verdict.merge(number::validate_number(schema, given, path));
            verdict.matches += 1;
        }
        Value::Array(items) => {
            verdict.merge(validate_list(schema, items, path, pair));
            verdict.matches += 1;
        }
        _ => {}
    }
    validate_enum(schema, value, path, verdict);
    verdict.matches += 1;
    if let Value::Object(map) = value {
        verdict.merge(validate_object(schema, map, path, pair));
        verdict.matches += 1;
    }
}

/// A type error; the text names the actual type.
fn wrong_type_error(path: &str, wanted: &str, given: &str) -> ValidationError {
    let text = format!("{path} in body must be of type {wanted}: {}", go_quote(given));
    ValidationError::new(FieldErrorKind::TypeInvalid, path, Value::from(given), text)
}

fn type_error(schema: &Schema, value: &Value, path: &str, format: Option<&str>) -> Option<ValidationError> {
    let types = schema.types();
    let (given, given_format) = match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let whole = value.is_f64() && value.as_f64().is_some_and(number::is_whole) && types.contains(&"integer");
    let widened = given == "integer" && types.contains(&"number");
    let fits = types.contains(&given) || whole || widened;
    let textual = value.is_string() || value.is_array();
    if let Some(format) = format {
        if !textual && !fits && given_format != format {
            return Some(wrong_type_error(path, format, given_format));
        }
        if textual && !types.contains(&"number") && !types.contains(&"integer") {
            return None;
        }
    }
    (!fits).then(|| wrong_type_error(path, &types.join(","), given))
}

fn validate_enum(schema: &Schema, value: &Value, path: &str, verdict: &mut ValidationResult) {
    if schema.enum_values.is_empty()
        || schema.enum_values.iter().any(|one| !one.is_null() && json_equal(one, value))
    {
        return;
    }
    let known: Vec<String> = schema
        .enum_values
        .iter()
        .map(|one| go_quote(&one.as_str().map_or_else(|| display_value(one).to_string(), str::to_owned)))
        .collect();
    let text = format!("{path} in body should be one of {}", known.join(" "));
    let fault = ValidationError::new(FieldErrorKind::NotSupported, path, display_value(value), text);
    verdict.add(fault.with_detail(format!("supported values: {}", known.join(", "))));
}

/// Equality; numbers are compared by value.
fn json_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn validate_string(schema: &Schema, text: &str, path: &str) -> Option<ValidationError> {
    let bounds = &schema.bounds;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = bounds.max_length.filter(|most| length > *most) {
        let message = format!("{path} in body should be at most {most} chars long");
        let unit = if most == 1 { "byte" } else { "bytes" };
        let shown = if most < 0 {
            "value is too long".to_owned()
        } else {
            format!("may not be more than {most} {unit}")
        };
        return Some(
            ValidationError::new(FieldErrorKind::TooLong, path, Value::Null, message).with_detail(shown),
        );
    }
    if let Some(least) = bounds.min_length.filter(|least| length < *least) {
        let message = format!("{path} in body should be at least {least} chars long");
        return Some(ValidationError::invalid(path, text.into(), message));
    }
    let pattern = schema.pattern.as_ref()?;
    let matches = pattern.regex.as_ref().is_ok_and(|regex| regex.is_match(text));
    let message = || format!("{path} in body should match '{}'", pattern.text);
    (!matches).then(|| ValidationError::invalid(path, text.into(), message()))
}

fn validate_list(
    schema: &Schema,
    items: &[Value],
    path: &str,
    pair: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let mut verdict = ValidationResult { matches: 1, ..ValidationResult::default() };
    if let Some(item) = schema.items.as_deref() {
        for (index, value) in items.iter().enumerate() {
            let pair = pair.and_then(|pair| pair.index(index));
            verdict.merge(validate_value(item, value, &format!("{path}[{index}]"), pair));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.bounds.min_items.filter(|least| count < *least) {
        let text = format!("{path} in body should have at least {least} items");
        verdict.add(ValidationError::invalid(path, count.into(), text));
    }
    if let Some(most) = schema.bounds.max_items.filter(|most| count > *most) {
        verdict.add(too_many_error(path, count, most, "items"));
    }
    verdict
}

fn too_many_error(path: &str, count: i64, most: i64, what: &str) -> ValidationError {
    let text = format!("{path} in body should have at most {most} {what}");
    let unit = if most == 1 { "item" } else { "items" };
    let shown =
        if most < 0 { "has too many items".to_owned() } else { format!("must have at most {most} {unit}") };
    ValidationError::new(FieldErrorKind::TooMany, path, count.into(), text).with_detail(shown)
}

fn validate_object(
    schema: &Schema,
    map: &Map<String, Value>,
    path: &str,
    pair: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let mut verdict = ValidationResult::default();
    let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.bounds.min_properties.filter(|least| count < *least) {
        let text = format!("{path} in body should have at least {least} properties");
        verdict.add(ValidationError::invalid(path, count.into(), text));
    }
    if let Some(most) = schema.bounds.max_properties.filter(|most| count > *most) {
        verdict.add(too_many_error(path, count, most, "properties"));
    }
    for (key, value) in map.iter().filter(|(key, _)| !schema.properties.contains_key(*key)) {
        match &schema.additional_properties {
            Some(AdditionalProperties::Any(false)) => {
                let text = format!("{path}.{key} in body is a forbidden property");
                verdict.add(ValidationError::invalid(path, key.as_str().into(), text));
            }
            Some(AdditionalProperties::Schema(child)) => {
                let pair = correlated_child(pair, path, key);
                verdict.merge(validate_value(child, value, &format!("{path}.{key}"), pair));
            }
            _ => {}
        }
    }
    for (key, child) in &schema.properties {
        let Some(value) = map.get(key) else { continue };
        let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        verdict.merge(validate_value(child, value, &name, correlated_child(pair, path, key)));
    }
    for key in schema.required.iter().filter(|key| !map.contains_key(*key)) {
        let name = format!("{path}.{key}");
        let text = format!("{name} in body is required");
        verdict.add(
            ValidationError::new(FieldErrorKind::Required, &name, Value::Null, text)
                .with_detail("")
                .without_value(),
        );
    }
    verdict
}

/// The type fields of the root are always equal, so they are not correlated.
fn correlated_child<'a>(
    pair: Option<CorrelatedValue<'a>>,
    path: &str,
    key: &str,
) -> Option<CorrelatedValue<'a>> {
    if path.is_empty() && matches!(key, "kind" | "apiVersion") { None } else { pair?.key(key) }
}

fn validate_combinators(schema: &Schema, value: &Value, path: &str) -> ValidationResult {
    let mut verdict = ValidationResult { matches: 1, ..ValidationResult::default() };
    validate_any_of(&schema.any_of, value, path, &mut verdict);
    validate_one_of(&schema.one_of, value, path, &mut verdict);
    validate_all_of(&schema.all_of, value, path, &mut verdict);
    if schema.not.as_ref().is_some_and(|not| validate_uncorrelated(not, value, path, None).is_valid()) {
        verdict.add(ValidationError::without_path(format!(
            "{} must not validate the schema (not)",
            go_quote(path)
        )));
    }
    verdict
}

/// The failed alternative with the most matches.
fn closer_match(best: Option<ValidationResult>, next: ValidationResult) -> ValidationResult {
    match best {
        Some(best) if next.matches <= best.matches => best,
        _ => next,
    }
}

fn validate_any_of(schemas: &[Schema], value: &Value, path: &str, verdict: &mut ValidationResult) {
    let mut best = None;
    for schema in schemas {
        let next = validate_uncorrelated(schema, value, path, None);
        if next.is_valid() {
            verdict.merge(next);
            return;
        }
        best = Some(closer_match(best, next));
    }
    if let Some(best) = best {
        verdict.add(ValidationError::without_path(format!(
            "{} must validate at least one schema (anyOf)",
            go_quote(path)
        )));
        verdict.merge(best);
    }
}

fn validate_one_of(schemas: &[Schema], value: &Value, path: &str, verdict: &mut ValidationResult) {
    if schemas.is_empty() {
        return;
    }
    let (mut best, mut first, mut valid) = (None, None, 0);
    for schema in schemas {
        let next = validate_uncorrelated(schema, value, path, None);
        if next.is_valid() {
            valid += 1;
            best = None;
            first = first.or(Some(next));
        } else if valid == 0 {
            best = Some(closer_match(best, next));
        }
    }
    if valid == 1 {
        if let Some(first) = first {
            verdict.merge(first);
        }
        return;
    }
    let found =
        if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
    let text = format!("{} must validate one and only one schema (oneOf). {found}", go_quote(path));
    verdict.add(ValidationError::without_path(text));
    if let Some(best) = best {
        verdict.merge(best);
    }
}

fn validate_all_of(schemas: &[Schema], value: &Value, path: &str, verdict: &mut ValidationResult) {
    let mut valid = 0;
    for schema in schemas {
        let next = validate_uncorrelated(schema, value, path, None);
        valid += usize::from(next.is_valid());
        verdict.merge(next);
    }
    if valid != schemas.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        verdict.add(ValidationError::without_path(format!(
            "{} must validate all the schemas (allOf){none}",
            go_quote(path)
        )));
    }
}
