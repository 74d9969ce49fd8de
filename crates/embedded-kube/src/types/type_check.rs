//! Values of the wrong JSON type, told in the words of Go's decoder.

use serde_json::{Map, Value};

use super::{
    go::{GoField, GoStruct, GoType, OwnJson},
    go_struct, go_struct_at,
    quantity::quantity_fault,
    schema,
    text::base64_fault,
    time::{self, Layout},
};
use crate::{
    failure::{Failure, quoted},
    object::type_name,
    shape::Shape,
};

/// Why the object cannot be decoded into its type: the first wrong value, or the first one that its own type refuses,
/// which comes before all others. `None` for a good object and for shapes that are not from the table.
pub fn check_types(object: &Value, shape: &Shape) -> Option<String> {
    let go = go_struct(shape)?;
    let mut checker = Checker { struct_name: "", path: Vec::new(), first: None };
    let fatal = match object {
        Value::Object(map) => checker.fields(map, go).err(),
        Value::Null => None,
        other => Some(format!("json: cannot unmarshal {} into Go value of type {}", type_name(other), go.go)),
    };
    fatal.or(checker.first)
}

/// The refusal of an object of this kind and version where another kind, or the same, was expected.
pub fn undecodable((kind, version): (&str, &str), expected: &str, why: &str) -> Failure {
    let version = quoted(version);
    Failure::bad_request(format!("{kind} in version {version} cannot be handled as a {expected}: {why}"))
}

struct Checker<'a> {
    struct_name: &'a str,
    path: Vec<&'a str>,
    first: Option<String>,
}

impl<'a> Checker<'a> {
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

    /// `Err` ends the decoding, as an error of a type's own decoder does.
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
            (value, GoType::Own(own)) => return self.own(value, *own),
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
                self.save(&format!("number {number}"), &go_name(kind, field));
            }
            (Value::String(text), GoType::Bytes) => {
                if let Some(at) = base64_fault(text) {
                    self.first.get_or_insert_with(|| format!("illegal base64 data at input byte {at}"));
                }
            }
            (other, _) => self.save(type_name(other), &go_name(kind, field)),
        }
        Ok(())
    }

    fn own(&mut self, value: &'a Value, own: OwnJson) -> Result<(), String> {
        match (value, own) {
            (Value::String(text), OwnJson::Time) => time::parse(text, Layout::Seconds).map(drop),
            (Value::String(text), OwnJson::MicroTime) => time::parse(text, Layout::Micros).map(drop),
            (Value::String(_), OwnJson::Duration) => Ok(()),
            (other, OwnJson::Time | OwnJson::MicroTime | OwnJson::Duration) => {
                Err(self.wrong(type_name(other), "string"))
            }
            (Value::String(text), OwnJson::Quantity) => quantity(text),
            (other, OwnJson::Quantity) => quantity(&other.to_string()),
            (Value::Number(number), OwnJson::IntOrString) => {
                if fits(number, i64::from(i32::MIN), i64::from(i32::MAX)) {
                    return Ok(());
                }
                Err(self.wrong(&format!("number {number}"), "int32"))
            }
            (Value::Bool(_) | Value::Array(_) | Value::Object(_), OwnJson::IntOrString) => {
                Err(self.wrong(type_name(value), "int32"))
            }
            (Value::Object(map), OwnJson::OrArray | OwnJson::OrBool | OwnJson::OrStringArray) => {
                schema().map_or(Ok(()), |go| self.fields(map, go))
            }
            (Value::Array(items), OwnJson::OrArray) => {
                items.iter().filter(|item| item.is_object()).try_for_each(|item| self.own(item, own))
            }
            (Value::Number(_) | Value::String(_) | Value::Array(_), OwnJson::OrBool) => {
                Err("boolean or JSON schema expected".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn save(&mut self, what: &str, kind: &str) {
        if self.first.is_none() {
            self.first = Some(self.wrong(what, kind));
        }
    }

    fn wrong(&self, what: &str, kind: &str) -> String {
        let (name, path) = (self.struct_name, self.path.join("."));
        format!("json: cannot unmarshal {what} into Go struct field {name}.{path} of type {kind}")
    }
}

fn fits(number: &serde_json::Number, least: i64, most: i64) -> bool {
    number.as_i64().is_some_and(|number| (least..=most).contains(&number))
}

fn quantity(text: &str) -> Result<(), String> {
    quantity_fault(text).map_or(Ok(()), |fault| Err(fault.to_owned()))
}

/// A type as Go writes it: `int32`, `[]v1.Container`, `map[string]string`.
fn go_name(kind: &GoType, field: &GoField) -> String {
    match kind {
        GoType::List { .. } | GoType::Map { .. } if !field.alias.is_empty() => field.alias.to_owned(),
        GoType::String(name, _) => name.clone(),
        GoType::Bool => "bool".to_owned(),
        GoType::Int32 => "int32".to_owned(),
        GoType::Int64 => "int64".to_owned(),
        GoType::Float => "float64".to_owned(),
        GoType::Bytes => "[]uint8".to_owned(),
        GoType::Own(own) => own.go().to_owned(),
        GoType::List { items, .. } => format!("[]{}", go_name(items, field)),
        GoType::Map { values, .. } => format!("map[string]{}", go_name(values, field)),
        GoType::Pointer(inner) => format!("*{}", go_name(inner, field)),
        GoType::Struct(index) => go_struct_at(*index).map_or_else(String::new, |go| go.go.clone()),
    }
}
