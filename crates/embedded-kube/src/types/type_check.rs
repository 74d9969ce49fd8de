//! Detects values of the wrong JSON type, with Go's error texts.

use serde_json::{Map, Value};

use super::{
    canonical::base64_error_offset,
    go_struct,
    go_struct::{CustomJson, GoField, GoStruct, GoType},
    go_struct_at,
    go_time::{self, Layout},
    schema_props_struct,
};
use crate::{
    object::type_name,
    quantity::quantity_error,
    shape::Shape,
    status_error::{StatusError, go_quote},
};

/// Why an object cannot be decoded: the first value of the wrong type, or the first one that a custom decoder rejects,
/// which takes precedence. `None` for a valid object and for shapes that are not from the type table.
pub fn check_types(object: &Value, shape: &Shape) -> Option<String> {
    let go = go_struct(shape)?;
    let mut checker = JsonTypeChecker { struct_name: "", path: Vec::new(), first: None };
    let fatal = match object {
        Value::Object(map) => checker.fields(map, go).err(),
        Value::Null => None,
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type {}",
            type_name(other),
            go.go_type_name
        )),
    };
    fatal.or(checker.first)
}

/// The error of an object of this kind and version that cannot be decoded as the expected kind.
pub fn decode_error((kind, version): (&str, &str), expected: &str, why: &str) -> StatusError {
    let version = go_quote(version);
    StatusError::bad_request(format!("{kind} in version {version} cannot be handled as a {expected}: {why}"))
}

struct JsonTypeChecker<'a> {
    struct_name: &'a str,
    path: Vec<&'a str>,
    first: Option<String>,
}

impl<'a> JsonTypeChecker<'a> {
    fn fields(&mut self, map: &'a Map<String, Value>, go: &'static GoStruct) -> Result<(), String> {
        let outer = self.struct_name;
        for (name, value) in map {
            let Some(field) = go.field(name) else { continue };
            self.struct_name = go.name;
            let depth = self.path.len();
            self.path.extend(field.within.iter().copied().chain([name.as_str()]));
            self.value(value, &field.kind, field)?;
            self.path.truncate(depth);
        }
        self.struct_name = outer;
        Ok(())
    }

    /// `Err` aborts decoding, like an error of a custom decoder.
    fn value(
        &mut self,
        value: &'a Value,
        kind: &'static GoType,
        field: &'static GoField,
    ) -> Result<(), String> {
        match (value, kind) {
            (value, GoType::Pointer(inner)) => return self.value(value, inner, field),
            (Value::Null, _)
            | (Value::Bool(_), GoType::Bool)
            | (Value::String(_), GoType::String(..))
            | (Value::Number(_), GoType::Float) => {}
            (value, GoType::CustomJson(own)) => return self.check_custom_json(value, *own),
            (Value::Object(map), GoType::Struct(index)) => {
                if let Some(go) = go_struct_at(*index) {
                    return self.fields(map, go);
                }
            }
            (Value::Object(map), GoType::Map { values, .. }) => {
                return map.values().try_for_each(|inner| self.value(inner, values, field));
            }
            (Value::Array(items), GoType::List { items: kind, .. }) => {
                return items.iter().try_for_each(|inner| self.value(inner, kind, field));
            }
            (Value::Number(number), GoType::Int32)
                if fits(number, i64::from(i32::MIN), i64::from(i32::MAX)) => {}
            (Value::Number(number), GoType::Int64) if fits(number, i64::MIN, i64::MAX) => {}
            (Value::Number(number), GoType::Int32 | GoType::Int64) => {
                self.record_first(&format!("number {number}"), &go_name(kind, field));
            }
            (Value::String(text), GoType::Bytes) => {
                if let Some(at) = base64_error_offset(text) {
                    self.first.get_or_insert_with(|| format!("illegal base64 data at input byte {at}"));
                }
            }
            (other, _) => self.record_first(type_name(other), &go_name(kind, field)),
        }
        Ok(())
    }

    fn check_custom_json(&mut self, value: &'a Value, own: CustomJson) -> Result<(), String> {
        match (value, own) {
            (Value::String(text), CustomJson::Time) => go_time::parse(text, Layout::Seconds).map(drop),
            (Value::String(text), CustomJson::MicroTime) => go_time::parse(text, Layout::Micros).map(drop),
            (Value::String(_), CustomJson::Duration) => Ok(()),
            (other, CustomJson::Time | CustomJson::MicroTime | CustomJson::Duration) => {
                Err(self.type_error(type_name(other), "string"))
            }
            (Value::String(text), CustomJson::Quantity) => quantity(text),
            (other, CustomJson::Quantity) => quantity(&other.to_string()),
            (Value::Number(number), CustomJson::IntOrString) => {
                if fits(number, i64::from(i32::MIN), i64::from(i32::MAX)) {
                    return Ok(());
                }
                Err(self.type_error(&format!("number {number}"), "int32"))
            }
            (Value::Bool(_) | Value::Array(_) | Value::Object(_), CustomJson::IntOrString) => {
                Err(self.type_error(type_name(value), "int32"))
            }
            (Value::Object(map), CustomJson::OrArray | CustomJson::OrBool | CustomJson::OrStringArray) => {
                schema_props_struct().map_or(Ok(()), |go| self.fields(map, go))
            }
            (Value::Array(items), CustomJson::OrArray) => items
                .iter()
                .filter(|item| item.is_object())
                .try_for_each(|item| self.check_custom_json(item, own)),
            (Value::Number(_) | Value::String(_) | Value::Array(_), CustomJson::OrBool) => {
                Err("boolean or JSON schema expected".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn record_first(&mut self, what: &str, kind: &str) {
        if self.first.is_none() {
            self.first = Some(self.type_error(what, kind));
        }
    }

    fn type_error(&self, what: &str, kind: &str) -> String {
        let (name, path) = (self.struct_name, self.path.join("."));
        format!("json: cannot unmarshal {what} into Go struct field {name}.{path} of type {kind}")
    }
}

fn fits(number: &serde_json::Number, least: i64, most: i64) -> bool {
    number.as_i64().is_some_and(|number| (least..=most).contains(&number))
}

fn quantity(text: &str) -> Result<(), String> {
    quantity_error(text).map_or(Ok(()), |fault| Err(fault.to_owned()))
}

/// A Go type name: `int32`, `[]v1.Container`, `map[string]string`.
fn go_name(kind: &GoType, field: &GoField) -> String {
    match kind {
        GoType::List { .. } | GoType::Map { .. } if !field.alias.is_empty() => field.alias.to_owned(),
        GoType::String(name, _) => name.clone(),
        GoType::Bool => "bool".to_owned(),
        GoType::Int32 => "int32".to_owned(),
        GoType::Int64 => "int64".to_owned(),
        GoType::Float => "float64".to_owned(),
        GoType::Bytes => "[]uint8".to_owned(),
        GoType::CustomJson(own) => own.go_type_name().to_owned(),
        GoType::List { items, .. } => format!("[]{}", go_name(items, field)),
        GoType::Map { values, .. } => format!("map[string]{}", go_name(values, field)),
        GoType::Pointer(inner) => format!("*{}", go_name(inner, field)),
        GoType::Struct(index) => go_struct_at(*index).map_or_else(String::new, |go| go.go_type_name.clone()),
    }
}
