//! Strategy of a custom resource at one version.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{CRD_TERMINATING_MESSAGE, printer_columns::PrinterColumns};
use crate::{
    object::{MetaAccessor, MetaAccessorMut, dns1123_subdomain, qualified_name},
    registry::{ObjectPart, ResourceStrategy, Scale},
    schema::{CompiledSchema, display_value},
    status_error::{ApiResult, FieldError, go_quote},
};

/// Strategy of a custom resource.
pub struct CustomResourceStrategy {
    pub schema: CompiledSchema,
    /// The schema as written by its author.
    pub source: Value,
    pub printer_columns: PrinterColumns,
    pub has_status: bool,
    pub scale: Option<Scale>,
    pub api_version: String,
    pub storage_api_version: String,
    /// Whether the CRD is terminating.
    pub terminating: bool,
    /// Warning for requests to a deprecated version.
    pub deprecation: Option<String>,
}

impl ResourceStrategy for CustomResourceStrategy {
    fn set_defaults(&self, object: &mut Value) {
        normalise_integers(object);
        self.schema.prune(object);
        self.schema.set_defaults(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            object.drop_field("status");
        }
    }

    fn prepare_update(&self, part: ObjectPart, object: &mut Value, old: &Value) {
        match part {
            ObjectPart::Status => restore_all_but_status(object, old),
            ObjectPart::Object | ObjectPart::Scale if self.has_status => restore_status(object, old),
            ObjectPart::Object | ObjectPart::Scale => {}
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.validate_all(object, None)
    }

    fn validate_update(&self, part: ObjectPart, object: &Value, old: &Value) -> Vec<FieldError> {
        if part != ObjectPart::Status {
            return self.validate_all(object, Some(old));
        }
        let mut errors = self.schema.validate_status(object, old);
        errors.extend(self.scale.iter().flat_map(|scale| validate_scale_status(scale, object)));
        errors.extend(self.schema.validate_lists(object, Some(old)));
        errors.extend(self.schema.validate_rules(object, Some(old), &errors));
        errors
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // A suffix follows the prefix, so a trailing dash is valid.
        if prefix {
            dns1123_subdomain(&format!("{}a", name.trim_end_matches('-')))
        } else {
            dns1123_subdomain(name)
        }
    }

    fn bumps_generation(&self, object: &Value, old: &Value) -> bool {
        let counts =
            |(key, _): &(&String, &Value)| *key != "metadata" && !(self.has_status && *key == "status");
        let empty = Map::new();
        let (new, old) = (object.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
        new.iter().filter(counts).count() != old.iter().filter(counts).count()
            || new.iter().filter(counts).any(|(key, value)| old.get(key) != Some(value))
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        // Existing finalizers are not warned about again; an update always has a resourceVersion.
        let is_new = object.resource_version().is_empty();
        object.finalizers().iter().filter(|_| is_new).flat_map(|name| finalizer_warnings(name)).collect()
    }

    fn deprecation_warning(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(self.printer_columns.cells(object, now))
    }

    fn schema(&self) -> Option<&Value> {
        Some(&self.source)
    }

    fn create_forbidden_reason(&self) -> Option<&str> {
        self.terminating.then_some(CRD_TERMINATING_MESSAGE)
    }

    fn from_storage(&self, object: &mut Value) {
        set_api_version(object, &self.api_version);
    }

    fn to_storage(&self, object: &mut Value) -> ApiResult<()> {
        set_api_version(object, &self.storage_api_version);
        Ok(())
    }
}

impl CustomResourceStrategy {
    fn validate_all(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.schema.validate_values(object, old);
        if let Some(scale) = &self.scale {
            errors.extend(validate_replica_count(object, &scale.spec));
            errors.extend(validate_scale_status(scale, object));
        }
        errors.extend(self.schema.validate_embedded(object));
        errors.extend(self.schema.validate_lists(object, old));
        errors.extend(self.schema.validate_rules(object, old, &errors));
        errors
    }
}

/// Warns about finalizer names without a domain.
fn finalizer_warnings(name: &str) -> Vec<String> {
    let field = format!("metadata.finalizers: {}", go_quote(name));
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

/// Normalizes floats without a fraction to integers, as kube-apiserver does when it stores them.
fn normalise_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(to_integer) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise_integers),
        Value::Object(map) => map.values_mut().for_each(normalise_integers),
        _ => {}
    }
}

fn to_integer(float: f64) -> Option<serde_json::Number> {
    if float.fract() != 0.0 || float.abs() >= 1e21 {
        return None;
    }
    // The shortest decimal representation of the float.
    let text = format!("{float}");
    let text = if text == "-0" { "0" } else { &text };
    text.parse::<i64>().map(Into::into).or_else(|_| text.parse::<u64>().map(Into::into)).ok()
}

fn set_api_version(object: &mut Value, api_version: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
}

/// The main endpoint does not change the status.
fn restore_status(object: &mut Value, old: &Value) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get("status") {
        Some(status) => drop(map.insert("status".to_owned(), status.clone())),
        None => drop(map.shift_remove("status")),
    }
}

/// The status endpoint changes only the status and managed fields.
fn restore_all_but_status(object: &mut Value, old: &Value) {
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

fn validate_scale_status(scale: &Scale, object: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = validate_replica_count(object, &scale.status).into_iter().collect();
    if let Some(selector) = &scale.selector
        && let Err(why) = nested_value(object, selector, "string", Value::is_string)
    {
        errors.push(FieldError::invalid(format!(".{selector}"), "", why));
    }
    errors
}

/// Rejects an invalid replica count.
fn validate_replica_count(object: &Value, path: &str) -> Option<FieldError> {
    let field = format!(".{path}");
    match nested_value(object, path, "int64", Value::is_i64) {
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

/// Gets a value by dotted path; an error if its type is not `wanted`.
fn nested_value<'a>(
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
                go_value_text(value),
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
        go_value_text(value),
        go_type(value)
    ))
}

fn go_value_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        other => display_value(other).to_string(),
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
