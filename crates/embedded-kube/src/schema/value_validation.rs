//! Does a value follow its schema? Faults come in the words of the real server.

use serde_json::{Map, Value};

use super::{
    correlate::Correlated,
    format, number,
    parse::{Additional, Schema},
    verdict::{Fault, Verdict, shown},
};
use crate::failure::{FieldErrorKind, quoted};

/// Checks a value at `path` (as messages spell it, empty for the root). With an old value, faults in what has not
/// changed are dropped.
pub fn check(schema: &Schema, value: &Value, path: &str, pair: Option<Correlated<'_>>) -> Verdict {
    let verdict = plain(schema, value, path, pair);
    if !verdict.is_valid() && pair.is_some_and(Correlated::is_same) {
        return Verdict { faults: Vec::new(), matches: verdict.matches };
    }
    verdict
}

fn plain(schema: &Schema, value: &Value, path: &str, pair: Option<Correlated<'_>>) -> Verdict {
    let mut verdict = Verdict::default();
    let types = schema.types();
    let format = format::of(schema);
    if value.is_null() {
        if types.is_empty() || schema.nullable {
            verdict.matches += 1;
        } else {
            verdict.add(wrong_type(path, &types.join(","), "null"));
        }
        one_of_enum(schema, value, path, &mut verdict);
        return verdict;
    }
    if !types.is_empty() || format.is_some() {
        match type_fault(schema, value, path, format) {
            Some(fault) => verdict.add(fault),
            None => verdict.matches += 1,
        }
        verdict.matches += 1;
    }
    verdict.merge(alternatives(schema, value, path));
    verdict.matches += 1;
    by_kind(schema, value, path, pair, &mut verdict);
    verdict.matches += 1;
    verdict
}

fn by_kind(schema: &Schema, value: &Value, path: &str, pair: Option<Correlated<'_>>, verdict: &mut Verdict) {
    match value {
        Value::String(text) => {
            if let Some(fault) = string(schema, text, path) {
                verdict.add(fault);
            }
            verdict.matches += 1;
            if let Some(name) = format::of(schema).filter(|name| format::is_known(name)) {
                if !format::holds(name, text) {
                    verdict.add(wrong_type(path, &schema.format, text));
                }
                verdict.matches += 1;
            }
        }
        Value::Number(given) => {
            verdict.merge(number::check(schema, given, path));
            verdict.matches += 1;
        }
        Value::Array(items) => {
            verdict.merge(list(schema, items, path, pair));
            verdict.matches += 1;
        }
        _ => {}
    }
    one_of_enum(schema, value, path, verdict);
    verdict.matches += 1;
    if let Value::Object(map) = value {
        verdict.merge(object(schema, map, path, pair));
        verdict.matches += 1;
    }
}

/// The fault of a value of the wrong type; the text names the type that was given.
fn wrong_type(path: &str, wanted: &str, given: &str) -> Fault {
    let text = format!("{path} in body must be of type {wanted}: {}", quoted(given));
    Fault::new(FieldErrorKind::TypeInvalid, path, Value::from(given), text)
}

fn type_fault(schema: &Schema, value: &Value, path: &str, format: Option<&str>) -> Option<Fault> {
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
            return Some(wrong_type(path, format, given_format));
        }
        if textual && !types.contains(&"number") && !types.contains(&"integer") {
            return None;
        }
    }
    (!fits).then(|| wrong_type(path, &types.join(","), given))
}

fn one_of_enum(schema: &Schema, value: &Value, path: &str, verdict: &mut Verdict) {
    if schema.allowed.is_empty() || schema.allowed.iter().any(|one| !one.is_null() && same(one, value)) {
        return;
    }
    let known: Vec<String> = schema
        .allowed
        .iter()
        .map(|one| quoted(&one.as_str().map_or_else(|| shown(one).to_string(), str::to_owned)))
        .collect();
    let text = format!("{path} in body should be one of {}", known.join(" "));
    let fault = Fault::new(FieldErrorKind::NotSupported, path, shown(value), text);
    verdict.add(fault.showing(format!("supported values: {}", known.join(", "))));
}

/// Numbers are the same whatever their notation.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn string(schema: &Schema, text: &str, path: &str) -> Option<Fault> {
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
        return Some(Fault::new(FieldErrorKind::TooLong, path, Value::Null, message).showing(shown));
    }
    if let Some(least) = bounds.min_length.filter(|least| length < *least) {
        let message = format!("{path} in body should be at least {least} chars long");
        return Some(Fault::invalid(path, text.into(), message));
    }
    let pattern = schema.pattern.as_ref()?;
    let matches = pattern.regex.as_ref().is_ok_and(|regex| regex.is_match(text));
    let message = || format!("{path} in body should match '{}'", pattern.text);
    (!matches).then(|| Fault::invalid(path, text.into(), message()))
}

fn list(schema: &Schema, items: &[Value], path: &str, pair: Option<Correlated<'_>>) -> Verdict {
    let mut verdict = Verdict { matches: 1, ..Verdict::default() };
    if let Some(item) = schema.items.as_deref() {
        for (index, value) in items.iter().enumerate() {
            let pair = pair.and_then(|pair| pair.index(index));
            verdict.merge(check(item, value, &format!("{path}[{index}]"), pair));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.bounds.min_items.filter(|least| count < *least) {
        let text = format!("{path} in body should have at least {least} items");
        verdict.add(Fault::invalid(path, count.into(), text));
    }
    if let Some(most) = schema.bounds.max_items.filter(|most| count > *most) {
        verdict.add(too_many(path, count, most, "items"));
    }
    verdict
}

fn too_many(path: &str, count: i64, most: i64, what: &str) -> Fault {
    let text = format!("{path} in body should have at most {most} {what}");
    let unit = if most == 1 { "item" } else { "items" };
    let shown =
        if most < 0 { "has too many items".to_owned() } else { format!("must have at most {most} {unit}") };
    Fault::new(FieldErrorKind::TooMany, path, count.into(), text).showing(shown)
}

fn object(schema: &Schema, map: &Map<String, Value>, path: &str, pair: Option<Correlated<'_>>) -> Verdict {
    let mut verdict = Verdict::default();
    let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.bounds.min_properties.filter(|least| count < *least) {
        let text = format!("{path} in body should have at least {least} properties");
        verdict.add(Fault::invalid(path, count.into(), text));
    }
    if let Some(most) = schema.bounds.max_properties.filter(|most| count > *most) {
        verdict.add(too_many(path, count, most, "properties"));
    }
    for (key, value) in map.iter().filter(|(key, _)| !schema.properties.contains_key(*key)) {
        match &schema.additional {
            Some(Additional::Any(false)) => {
                let text = format!("{path}.{key} in body is a forbidden property");
                verdict.add(Fault::invalid(path, key.as_str().into(), text));
            }
            Some(Additional::Schema(child)) => {
                let pair = pair_of(pair, path, key);
                verdict.merge(check(child, value, &format!("{path}.{key}"), pair));
            }
            _ => {}
        }
    }
    for (key, child) in &schema.properties {
        let Some(value) = map.get(key) else { continue };
        let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        verdict.merge(check(child, value, &name, pair_of(pair, path, key)));
    }
    for key in schema.required.iter().filter(|key| !map.contains_key(*key)) {
        let name = format!("{path}.{key}");
        let text = format!("{name} in body is required");
        verdict
            .add(Fault::new(FieldErrorKind::Required, &name, Value::Null, text).showing("").without_value());
    }
    verdict
}

/// Type fields of the root look the same in old and new, so that they say nothing about change.
fn pair_of<'a>(pair: Option<Correlated<'a>>, path: &str, key: &str) -> Option<Correlated<'a>> {
    if path.is_empty() && matches!(key, "kind" | "apiVersion") { None } else { pair?.key(key) }
}

fn alternatives(schema: &Schema, value: &Value, path: &str) -> Verdict {
    let mut verdict = Verdict { matches: 1, ..Verdict::default() };
    any_of(&schema.any_of, value, path, &mut verdict);
    one_of(&schema.one_of, value, path, &mut verdict);
    all_of(&schema.all_of, value, path, &mut verdict);
    if schema.not.as_ref().is_some_and(|not| plain(not, value, path, None).is_valid()) {
        verdict.add(Fault::whole(format!("{} must not validate the schema (not)", quoted(path))));
    }
    verdict
}

/// The failure that came closest.
fn better(best: Option<Verdict>, next: Verdict) -> Verdict {
    match best {
        Some(best) if next.matches <= best.matches => best,
        _ => next,
    }
}

fn any_of(schemas: &[Schema], value: &Value, path: &str, verdict: &mut Verdict) {
    let mut best = None;
    for schema in schemas {
        let next = plain(schema, value, path, None);
        if next.is_valid() {
            verdict.merge(next);
            return;
        }
        best = Some(better(best, next));
    }
    if let Some(best) = best {
        verdict.add(Fault::whole(format!("{} must validate at least one schema (anyOf)", quoted(path))));
        verdict.merge(best);
    }
}

fn one_of(schemas: &[Schema], value: &Value, path: &str, verdict: &mut Verdict) {
    if schemas.is_empty() {
        return;
    }
    let (mut best, mut first, mut valid) = (None, None, 0);
    for schema in schemas {
        let next = plain(schema, value, path, None);
        if next.is_valid() {
            valid += 1;
            best = None;
            first = first.or(Some(next));
        } else if valid == 0 {
            best = Some(better(best, next));
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
    let text = format!("{} must validate one and only one schema (oneOf). {found}", quoted(path));
    verdict.add(Fault::whole(text));
    if let Some(best) = best {
        verdict.merge(best);
    }
}

fn all_of(schemas: &[Schema], value: &Value, path: &str, verdict: &mut Verdict) {
    let mut valid = 0;
    for schema in schemas {
        let next = plain(schema, value, path, None);
        valid += usize::from(next.is_valid());
        verdict.merge(next);
    }
    if valid != schemas.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        verdict.add(Fault::whole(format!("{} must validate all the schemas (allOf){none}", quoted(path))));
    }
}
