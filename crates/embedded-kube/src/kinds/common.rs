//! Helpers shared by the kinds: names, defaults, validation.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::columns::{age_cell, created_at_cell, name_cell};
use crate::{
    object,
    registry::{ObjectPart, ResourceStrategy},
    shape::Shape,
    status_error::{FieldError, FieldErrorKind},
    types,
};

/// Strategy of kinds without specific behaviour.
pub struct DefaultStrategy {
    /// The table shows the creation time instead of the age.
    pub shows_created_at: bool,
}

impl ResourceStrategy for DefaultStrategy {
    fn set_defaults(&self, _object: &mut Value) {}

    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _part: ObjectPart, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, _object: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            if self.shows_created_at { created_at_cell(object) } else { age_cell(object, now) },
        ])
    }
}

/// Wraps a strategy so that it sees objects as Go's decoder produces them: empty values absent, always-written values
/// present, fields in order. The kinds rely on this form and preserve it.
pub struct NormalizingStrategy<R> {
    pub shape: Shape,
    pub strategy: R,
}

impl<R: ResourceStrategy> ResourceStrategy for NormalizingStrategy<R> {
    fn set_defaults(&self, object: &mut Value) {
        types::normalise(object, &self.shape);
        self.strategy.set_defaults(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        self.strategy.prepare_create(object);
        types::normalise(object, &self.shape);
    }

    fn prepare_update(&self, part: ObjectPart, object: &mut Value, old: &Value) {
        self.strategy.prepare_update(part, object, old);
        types::normalise(object, &self.shape);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.strategy.validate(object)
    }

    fn validate_update(&self, part: ObjectPart, object: &Value, old: &Value) -> Vec<FieldError> {
        self.strategy.validate_update(part, object, old)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        self.strategy.validate_name(name, prefix)
    }

    fn bumps_generation(&self, object: &Value, old: &Value) -> bool {
        self.strategy.bumps_generation(object, old)
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        self.strategy.warnings(object)
    }

    fn deprecation_warning(&self) -> Option<&str> {
        self.strategy.deprecation_warning()
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        self.strategy.cells(object, now)
    }

    fn from_storage(&self, object: &mut Value) {
        self.strategy.from_storage(object);
    }

    fn to_storage(&self, object: &mut Value) -> crate::status_error::ApiResult<()> {
        self.strategy.to_storage(object)
    }
}

// === names ===

/// Validates an RFC 1123 subdomain; most kinds.
pub fn validate_subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    object::dns1123_subdomain(&mask_trailing_dash(name, prefix))
}

/// Validates an RFC 1123 label; Namespaces and Services.
pub fn validate_label_name(name: &str, prefix: bool) -> Vec<String> {
    object::dns1123_label(&mask_trailing_dash(name, prefix))
}

/// A generateName may end in a dash, since a suffix follows.
fn mask_trailing_dash(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest.push('a');
            rest
        }
        _ => name.to_owned(),
    }
}

// === reading ===

/// Gets a list by path; empty if missing.
pub fn list_at<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    object::get_path(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Gets a map by path.
pub fn map_at<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object::get_path(value, path).and_then(Value::as_object).into_iter().flatten()
}

/// Gets an integer by path.
pub fn int_at(value: &Value, path: &[&str]) -> Option<i64> {
    object::get_path(value, path).and_then(Value::as_i64)
}

/// Gets a boolean by path; false if missing.
pub fn bool_at(value: &Value, path: &[&str]) -> bool {
    object::get_path(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether the path exists.
pub fn has_path(value: &Value, path: &[&str]) -> bool {
    object::get_path(value, path).is_some_and(|value| !value.is_null())
}

// === writing ===

/// Sets a default.
pub fn set_default(value: &mut Value, key: &str, default: impl Into<Value>) {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    if let Some(map) = value.as_object_mut()
        && map.get(key).is_none_or(Value::is_null)
    {
        map.insert(key.to_owned(), default.into());
    }
}

/// Mutable items of a list.
pub fn items_mut<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Replaces a field with its old value.
pub fn copy_from_old(object: &mut Value, old: &Value, key: &str) {
    match (old.get(key), object.as_object_mut()) {
        (Some(part), Some(map)) => {
            map.insert(key.to_owned(), part.clone());
        }
        (None, Some(map)) => {
            map.shift_remove(key);
        }
        _ => {}
    }
}

/// The status and main endpoints each preserve the other's part.
pub fn restore_other_part(part: ObjectPart, object: &mut Value, old: &Value) {
    match part {
        ObjectPart::Status => copy_from_old(object, old, "spec"),
        ObjectPart::Object | ObjectPart::Scale => copy_from_old(object, old, "status"),
    }
}

// === validation ===

/// Adds errors about one value.
pub fn push_invalid(out: &mut Vec<FieldError>, field: &str, value: &str, complaints: Vec<String>) {
    out.extend(complaints.into_iter().map(|text| FieldError::invalid(field, value, text)));
}

/// Rejects a change of an immutable field.
pub fn validate_immutable(out: &mut Vec<FieldError>, field: &str, new: Option<&Value>, old: Option<&Value>) {
    let there = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    let (new, old) = (there(new), there(old));
    if new != old {
        out.push(FieldError::invalid(field, new.unwrap_or_default(), "field is immutable"));
    }
}

/// Rejects a negative number.
pub fn validate_non_negative(out: &mut Vec<FieldError>, field: &str, number: Option<i64>) {
    if let Some(number) = number.filter(|number| *number < 0) {
        let error = FieldError::invalid(field, number, "must be greater than or equal to 0");
        out.push(error);
    }
}

/// Validates a port number.
pub fn validate_port_number(out: &mut Vec<FieldError>, field: &str, port: i64) {
    if !(1..=65535).contains(&port) {
        out.push(FieldError::invalid(field, port, "must be between 1 and 65535, inclusive"));
    }
}

/// Validates a port protocol.
pub fn validate_protocol(out: &mut Vec<FieldError>, field: &str, protocol: &str) {
    match protocol {
        "TCP" | "UDP" | "SCTP" => {}
        "" => out.push(FieldError::required(field, "")),
        other => out.push(FieldError::not_supported(field, other, &["SCTP", "TCP", "UDP"])),
    }
}

/// Too many items.
pub fn too_many(field: &str, count: usize, most: usize) -> FieldError {
    let detail = format!("must have at most {most} items");
    FieldError::new(FieldErrorKind::TooMany, field, Some(count.into()), detail)
}

/// Validates a data key of a Secret or `ConfigMap`.
pub fn validate_config_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if key.len() > 253 {
        wrong.push("must be no more than 253 bytes".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        wrong.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    match key {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// Validates an IP address in legacy (lenient) syntax.
pub fn validate_ip_address(out: &mut Vec<FieldError>, field: &str, text: &str) -> Option<IpAddr> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_some() => {
            let detail = "must not be an IPv4-mapped IPv6 address";
            out.push(FieldError::invalid(field, text, detail));
            None
        }
        Ok(address) => Some(address),
        Err(_) => {
            let sloppy: Vec<&str> = text.split('.').collect();
            let four = sloppy.len() == 4 && sloppy.iter().all(|part| part.parse::<u8>().is_ok());
            let detail = if four {
                "must not have leading 0s"
            } else {
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            };
            out.push(FieldError::invalid(field, text, detail));
            None
        }
    }
}

/// Validates the IP address of an endpoint.
pub fn validate_endpoint_address(out: &mut Vec<FieldError>, field: &str, text: &str) {
    let Ok(address) = text.parse::<IpAddr>() else {
        out.push(FieldError::invalid(field, text, "must be a valid IP address"));
        return;
    };
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(four) => (four.is_link_local(), matches!(four.octets(), [224, 0, 0, _])),
        IpAddr::V6(six) => {
            let first = six.segments().first().copied().unwrap_or_default();
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if address.is_unspecified() {
        out.push(FieldError::invalid(field, text, format!("may not be unspecified ({text})")));
    }
    if address.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        out.push(FieldError::invalid(field, text, detail));
    }
    if link_local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        out.push(FieldError::invalid(field, text, detail));
    }
    if link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        out.push(FieldError::invalid(field, text, detail));
    }
}

/// Validates labels outside of metadata.
pub fn validate_labels<'a>(
    out: &mut Vec<FieldError>,
    field: &str,
    labels: impl Iterator<Item = (&'a String, &'a Value)>,
) {
    for (key, value) in labels {
        push_invalid(out, field, key, object::label_key(key));
        let value = value.as_str().unwrap_or_default();
        push_invalid(out, field, value, object::label_value(value));
    }
}

/// Validates a `LabelSelector`.
pub fn validate_label_selector(out: &mut Vec<FieldError>, field: &str, selector: &Value) {
    validate_labels(out, &format!("{field}.matchLabels"), map_at(selector, &["matchLabels"]));
    for (index, one) in list_at(selector, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = list_at(one, &["values"]);
        let operator = object::str_at(one, &["operator"]);
        match operator {
            "In" | "NotIn" if values.is_empty() => out.push(FieldError::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => out.push(FieldError::forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                out.push(FieldError::invalid(
                    format!("{field}.operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = object::str_at(one, &["key"]);
        push_invalid(out, &format!("{field}.key"), key, object::label_key(key));
        if matches!(operator, "In" | "NotIn") {
            for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
                push_invalid(out, &format!("{field}.values[{index}]"), value, object::label_value(value));
            }
        }
    }
}
