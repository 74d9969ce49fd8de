//! Rules of one custom resource at one version.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{ENDING, columns::Table};
use crate::{
    failure::{Answer, FieldError, quoted},
    object::{Meta, MetaMut, dns1123_subdomain, qualified_name},
    registry::{Part, Rules, Scale},
    schema::{Compiled, shown},
};

/// What a custom resource does beyond being stored.
pub struct Custom {
    pub schema: Compiled,
    /// As its author wrote it.
    pub source: Value,
    pub table: Table,
    pub has_status: bool,
    pub scale: Option<Scale>,
    pub api_version: String,
    pub storage_api_version: String,
    /// The CRD is about to go.
    pub terminating: bool,
    /// Said to everybody who writes through a deprecated version.
    pub deprecation: Option<String>,
}

impl Rules for Custom {
    fn default(&self, object: &mut Value) {
        whole_numbers(object);
        self.schema.prune(object);
        self.schema.default(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            object.drop_field("status");
        }
    }

    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        match part {
            Part::Status => only_status(object, old),
            Part::Main | Part::Scale if self.has_status => keep_status(object, old),
            Part::Main | Part::Scale => {}
        }
    }

    fn check(&self, object: &Value) -> Vec<FieldError> {
        self.check_all(object, None)
    }

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
        if part != Part::Status {
            return self.check_all(object, Some(old));
        }
        let mut errors = self.schema.check_status(object, old);
        errors.extend(self.scale.iter().flat_map(|scale| status_faults(scale, object)));
        errors.extend(self.schema.check_lists(object, Some(old)));
        errors.extend(self.schema.check_rules(object, Some(old), &errors));
        errors
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // A generated name goes on after its prefix, so that a dash at the end is no fault.
        if prefix {
            dns1123_subdomain(&format!("{}a", name.trim_end_matches('-')))
        } else {
            dns1123_subdomain(name)
        }
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let counts =
            |(key, _): &(&String, &Value)| *key != "metadata" && !(self.has_status && *key == "status");
        let empty = Map::new();
        let (new, old) = (object.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
        new.iter().filter(counts).count() != old.iter().filter(counts).count()
            || new.iter().filter(counts).any(|(key, value)| old.get(key) != Some(value))
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        // Finalizers that were there before are no news; an update always says what it is based on.
        let is_new = object.resource_version().is_empty();
        object.finalizers().iter().filter(|_| is_new).flat_map(|name| finalizer_warnings(name)).collect()
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(self.table.cells(object, now))
    }

    fn schema(&self) -> Option<&Value> {
        Some(&self.source)
    }

    fn refuses_create(&self) -> Option<&str> {
        self.terminating.then_some(ENDING)
    }

    fn from_storage(&self, object: &mut Value) {
        set_api_version(object, &self.api_version);
    }

    fn to_storage(&self, object: &mut Value) -> Answer<()> {
        set_api_version(object, &self.storage_api_version);
        Ok(())
    }
}

impl Custom {
    fn check_all(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.schema.check_values(object, old);
        if let Some(scale) = &self.scale {
            errors.extend(count_fault(object, &scale.spec));
            errors.extend(status_faults(scale, object));
        }
        errors.extend(self.schema.check_embedded(object));
        errors.extend(self.schema.check_lists(object, old));
        errors.extend(self.schema.check_rules(object, old, &errors));
        errors
    }
}

/// A finalizer's name should tell whose it is.
fn finalizer_warnings(name: &str) -> Vec<String> {
    let field = format!("metadata.finalizers: {}", quoted(name));
    let mut warnings: Vec<String> =
        qualified_name(name).into_iter().map(|wrong| format!("{field}: {wrong}")).collect();
    if !name.contains('/') && !matches!(name, "orphan" | "foregroundDeletion" | "kubernetes") {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "{field}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}

/// Writes numbers without a fraction as such, as the real server does when it stores them.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn whole(float: f64) -> Option<serde_json::Number> {
    if float.fract() != 0.0 || float.abs() >= 1e21 {
        return None;
    }
    // The shortest digits that mean this float, and zeros after them.
    let text = format!("{float}");
    let text = if text == "-0" { "0" } else { &text };
    text.parse::<i64>().map(Into::into).or_else(|_| text.parse::<u64>().map(Into::into)).ok()
}

fn set_api_version(object: &mut Value, api_version: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
}

/// The main endpoint leaves the status as it is.
fn keep_status(object: &mut Value, old: &Value) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get("status") {
        Some(status) => drop(map.insert("status".to_owned(), status.clone())),
        None => drop(map.shift_remove("status")),
    }
}

/// The status endpoint changes the status, and who manages it.
fn only_status(object: &mut Value, old: &Value) {
    let status = object.drop_field("status");
    let managers = object.pointer("/metadata/managedFields").cloned();
    let mut next = old.clone();
    next.drop_meta("managedFields");
    if let Some(managers) = managers {
        next.set_meta("managedFields", managers);
    }
    next.drop_field("status");
    if let (Some(status), Some(map)) = (status, next.as_object_mut()) {
        map.insert("status".to_owned(), status);
    }
    *object = next;
}

fn status_faults(scale: &Scale, object: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = count_fault(object, &scale.status).into_iter().collect();
    if let Some(selector) = &scale.selector
        && let Err(why) = nested(object, selector, "string", Value::is_string)
    {
        errors.push(FieldError::invalid(format!(".{selector}"), "", why));
    }
    errors
}

/// A number of replicas that is none.
fn count_fault(object: &Value, path: &str) -> Option<FieldError> {
    let field = format!(".{path}");
    match nested(object, path, "int64", Value::is_i64) {
        Err(why) => Some(FieldError::invalid(field, 0, why)),
        Ok(None) => None,
        Ok(Some(value)) => {
            let count = value.as_i64().unwrap_or_default();
            let detail = match count {
                ..0 => "should be a non-negative integer".to_owned(),
                0..=2_147_483_647 => return None,
                _ => format!("should be less than or equal to {}", i32::MAX),
            };
            Some(FieldError::invalid(field, count, detail))
        }
    }
}

/// A value by dotted path; an error where its type is not `wanted`.
fn nested<'a>(
    object: &'a Value,
    path: &str,
    wanted: &str,
    is: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut so_far = String::new();
    for key in path.split('.') {
        let Some(map) = value.as_object() else {
            return Err(format!(
                "{so_far} accessor error: {} is of the type {}, expected map[string]interface{{}}",
                go_text(value),
                go_type(value)
            ));
        };
        so_far = format!("{so_far}.{key}");
        match map.get(key) {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    if is(value) {
        return Ok(Some(value));
    }
    Err(format!(
        "{so_far} accessor error: {} is of the type {}, expected {wanted}",
        go_text(value),
        go_type(value)
    ))
}

fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        other => shown(other).to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
