//! What the kinds share: names, defaults, faults that many have.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::columns::{age, created_at, name};
use crate::{
    failure::{FieldError, FieldErrorKind},
    object,
    registry::{Part, Rules},
    shape::Shape,
    types,
};

/// Rules of a kind that has none of its own.
pub struct Plain {
    /// The table shows when it was created instead of how old it is.
    pub dated: bool,
}

impl Rules for Plain {
    fn default(&self, _object: &mut Value) {}

    fn check(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn check_update(&self, _part: Part, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _object: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name(object), if self.dated { created_at(object) } else { age(object, now) }])
    }
}

/// A kind's rules on objects in the form that the real decoder gives them: what is empty is absent, what is always
/// written is there, fields are in order. The kinds can rely on it, and leave objects so.
pub struct Decoded<R> {
    pub shape: Shape,
    pub rules: R,
}

impl<R: Rules> Rules for Decoded<R> {
    fn default(&self, object: &mut Value) {
        types::normalise(object, &self.shape);
        self.rules.default(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        self.rules.prepare_create(object);
        types::normalise(object, &self.shape);
    }

    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        self.rules.prepare_update(part, object, old);
        types::normalise(object, &self.shape);
    }

    fn check(&self, object: &Value) -> Vec<FieldError> {
        self.rules.check(object)
    }

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
        self.rules.check_update(part, object, old)
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        self.rules.check_name(name, prefix)
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        self.rules.is_new_generation(object, old)
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        self.rules.warnings(object)
    }

    fn deprecation(&self) -> Option<&str> {
        self.rules.deprecation()
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        self.rules.cells(object, now)
    }

    fn from_storage(&self, object: &mut Value) {
        self.rules.from_storage(object);
    }

    fn to_storage(&self, object: &mut Value) -> crate::failure::Answer<()> {
        self.rules.to_storage(object)
    }
}

// === names ===

/// Most kinds: an RFC 1123 subdomain.
pub fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    object::dns1123_subdomain(&masked(name, prefix))
}

/// Namespaces and Services: an RFC 1123 label.
pub fn label_name(name: &str, prefix: bool) -> Vec<String> {
    object::dns1123_label(&masked(name, prefix))
}

/// A generateName may end in a dash, since something follows it.
fn masked(name: &str, prefix: bool) -> String {
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

/// A list by path; empty where there is none.
pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    object::at(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A map by path.
pub fn map<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object::at(value, path).and_then(Value::as_object).into_iter().flatten()
}

/// An integer by path.
pub fn int(value: &Value, path: &[&str]) -> Option<i64> {
    object::at(value, path).and_then(Value::as_i64)
}

/// A truth by path; no where there is none.
pub fn flag(value: &Value, path: &[&str]) -> bool {
    object::at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether a path leads to something.
pub fn has(value: &Value, path: &[&str]) -> bool {
    object::at(value, path).is_some_and(|value| !value.is_null())
}

// === writing ===

/// Fills a gap.
pub fn fill(value: &mut Value, key: &str, default: impl Into<Value>) {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    if let Some(map) = value.as_object_mut()
        && map.get(key).is_none_or(Value::is_null)
    {
        map.insert(key.to_owned(), default.into());
    }
}

/// The items of a list, to be changed.
pub fn items_mut<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Puts a part of the old object in the place of the new one's.
pub fn keep(object: &mut Value, old: &Value, key: &str) {
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

/// What the status endpoint leaves alone, and the main one: each keeps the other's part.
pub fn keep_other_part(part: Part, object: &mut Value, old: &Value) {
    match part {
        Part::Status => keep(object, old, "spec"),
        Part::Main | Part::Scale => keep(object, old, "status"),
    }
}

// === faults ===

/// Adds complaints about one value.
pub fn complain(out: &mut Vec<FieldError>, field: &str, value: &str, complaints: Vec<String>) {
    out.extend(complaints.into_iter().map(|text| FieldError::invalid(field, value, text)));
}

/// A field that may not change.
pub fn unchanged(out: &mut Vec<FieldError>, field: &str, new: Option<&Value>, old: Option<&Value>) {
    let there = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    let (new, old) = (there(new), there(old));
    if new != old {
        out.push(FieldError::invalid(field, new.unwrap_or_default(), "field is immutable"));
    }
}

/// A number that must not be below zero.
pub fn not_negative(out: &mut Vec<FieldError>, field: &str, number: Option<i64>) {
    if let Some(number) = number.filter(|number| *number < 0) {
        let error = FieldError::invalid(field, number, "must be greater than or equal to 0");
        out.push(error);
    }
}

/// A port's number.
pub fn port_number(out: &mut Vec<FieldError>, field: &str, port: i64) {
    if !(1..=65535).contains(&port) {
        out.push(FieldError::invalid(field, port, "must be between 1 and 65535, inclusive"));
    }
}

/// A protocol of a port.
pub fn protocol(out: &mut Vec<FieldError>, field: &str, protocol: &str) {
    match protocol {
        "TCP" | "UDP" | "SCTP" => {}
        "" => out.push(FieldError::required(field, "")),
        other => out.push(FieldError::not_supported(field, other, &["SCTP", "TCP", "UDP"])),
    }
}

/// More items than there may be.
pub fn too_many(field: &str, count: usize, most: usize) -> FieldError {
    let detail = format!("must have at most {most} items");
    FieldError::new(FieldErrorKind::TooMany, field, Some(count.into()), detail)
}

/// A key of a Secret's or `ConfigMap`'s data.
pub fn config_key(key: &str) -> Vec<String> {
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

/// An address, as fields from before strict parsing have it.
pub fn ip_address(out: &mut Vec<FieldError>, field: &str, text: &str) -> Option<IpAddr> {
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

/// An address that an endpoint may have.
pub fn endpoint_address(out: &mut Vec<FieldError>, field: &str, text: &str) {
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

/// Labels, as they stand in places other than metadata.
pub fn labels<'a>(
    out: &mut Vec<FieldError>,
    field: &str,
    labels: impl Iterator<Item = (&'a String, &'a Value)>,
) {
    for (key, value) in labels {
        complain(out, field, key, object::label_key(key));
        let value = value.as_str().unwrap_or_default();
        complain(out, field, value, object::label_value(value));
    }
}

/// A `LabelSelector`.
pub fn label_selector(out: &mut Vec<FieldError>, field: &str, selector: &Value) {
    labels(out, &format!("{field}.matchLabels"), map(selector, &["matchLabels"]));
    for (index, one) in list(selector, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = list(one, &["values"]);
        let operator = object::text(one, &["operator"]);
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
        let key = object::text(one, &["key"]);
        complain(out, &format!("{field}.key"), key, object::label_key(key));
        if matches!(operator, "In" | "NotIn") {
            for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
                complain(out, &format!("{field}.values[{index}]"), value, object::label_value(value));
            }
        }
    }
}
