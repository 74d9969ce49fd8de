//! Decodes a document into a typed object: strict, with the exact path of every error.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    error::{ManifestError, Origin},
    known_fields::known_fields,
};

/// Fields with free-form JSON, in which null is significant.
const FREE_FORM: [&str; 5] = ["varmap", "inputs", "atProvider", "outputs", "annotations"];

/// How strictly a document is decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// A capt kind: unknown fields are errors.
    Ours,
    /// A foreign kind: unknown fields are ignored.
    Foreign,
    /// A foreign kind with secret values: messages do not quote them.
    Hidden,
}

/// A document before decoding.
pub(super) struct RawObject {
    pub(super) origin: Origin,
    pub(super) kind: String,
    /// Kind, namespace and name, for messages.
    pub(super) object: String,
    pub(super) value: Value,
}

/// Decodes the object, or returns every error.
pub(super) fn decode_object<T: DeserializeOwned>(
    document: RawObject,
    strictness: Strictness,
) -> Result<(Origin, T), Vec<ManifestError>> {
    let RawObject { origin, kind, object, mut value } = document;
    drop_nulls(&mut value);
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let result: Result<T, _> = serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
    let mut errors: Vec<ManifestError> = Vec::new();
    if strictness == Strictness::Ours {
        let unknown = unknown.iter().filter(|path| !matches!(path.as_str(), "apiVersion" | "kind"));
        errors.extend(unknown.map(|path| unknown_field(&origin, &kind, &object, path)));
    }
    match result {
        Ok(value) if errors.is_empty() => Ok((origin, value)),
        Ok(_) => Err(errors),
        Err(error) => {
            errors.push(decode_error(&origin, &object, &track.path().to_string(), &error, strictness));
            Err(errors)
        }
    }
}

/// The API server drops nulls of non-nullable fields, and no field of capt is nullable.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields.iter_mut() {
                if !FREE_FORM.contains(&name.as_str()) {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn unknown_field(origin: &Origin, kind: &str, object: &str, path: &str) -> ManifestError {
    // serde_ignored renders an index as a path segment and an optional value as `?`.
    let path = readable_path(path);
    let remedy = match known_fields(kind, &path) {
        Some(fields) => format!("correct or remove it; valid fields here: {fields}"),
        None => "correct or remove it".to_owned(),
    };
    ManifestError::Field {
        origin: origin.clone(),
        object: object.to_owned(),
        path,
        message: "unknown field".to_owned(),
        remedy,
    }
}

fn readable_path(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for step in path.split('.').filter(|step| !step.is_empty() && *step != "?") {
        if step.bytes().all(|it| it.is_ascii_digit()) {
            text.extend(["[", step, "]"]);
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(step.trim_end_matches('?'));
        }
    }
    text
}

fn decode_error(
    origin: &Origin,
    object: &str,
    path: &str,
    error: &serde_json::Error,
    strictness: Strictness,
) -> ManifestError {
    let message = plain_type_names(&error.to_string());
    let at = if path == "." { String::new() } else { path.to_owned() };
    let (path, message, remedy) = if let Some(field) = quoted_name(&message, "missing field `") {
        let path = if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") };
        (path, "is missing".to_owned(), "add it")
    } else if strictness == Strictness::Hidden {
        let kept = ["is not base64", "is not a string"].into_iter().find(|it| message.starts_with(it));
        (at, kept.unwrap_or("has the wrong type").to_owned(), "correct it; the value is not shown")
    } else if message.contains("expected a string") && !is_compound(&message) {
        (at, message, "put the value in quotes")
    } else {
        (at, message, "correct it")
    };
    let path = if path.is_empty() { "the object".to_owned() } else { path };
    let (origin, object, remedy) = (origin.clone(), object.to_owned(), remedy.to_owned());
    ManifestError::Field { origin, object, path, message, remedy }
}

/// Whether the value is a list or map; quoting it would not help.
fn is_compound(message: &str) -> bool {
    ["invalid type: sequence", "invalid type: map"].iter().any(|start| message.starts_with(start))
}

/// Replaces Rust's integer type names by "a whole number".
fn plain_type_names(message: &str) -> String {
    let plain = ["i32", "i64", "u8", "u16", "u32", "u64", "usize"].into_iter().find_map(|name| {
        message.strip_suffix(&format!("expected {name}")).map(|rest| format!("{rest}expected a whole number"))
    });
    plain.unwrap_or_else(|| message.to_owned())
}

fn quoted_name<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.split('`').next()
}
