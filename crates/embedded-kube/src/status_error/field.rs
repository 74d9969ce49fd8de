//! Validation errors of single fields, with kube-apiserver's texts.

use std::fmt::Write as _;

use serde_json::Value;

use super::StatusCause;

/// Type of a validation error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// References something that does not exist.
    NotFound,
    /// Missing.
    Required,
    /// Not unique.
    Duplicate,
    /// Malformed or out of range.
    Invalid,
    /// Not one of the supported values.
    NotSupported,
    /// Well-formed, but not allowed here.
    Forbidden,
    /// Too long.
    TooLong,
    /// Too short.
    TooShort,
    /// Too many items.
    TooMany,
    /// Too few items.
    TooFew,
    /// Internal error.
    Internal,
    /// Of the wrong JSON type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// `reason` of the cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

/// A validation error of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Type.
    pub kind: FieldErrorKind,
    /// Path, such as `spec.ports[0].port`.
    pub field: String,
    /// The invalid value; `None` is omitted from the text.
    pub value: Option<Value>,
    /// Expected value; may be empty.
    pub detail: String,
}

impl FieldError {
    /// Builds an error from its parts.
    pub fn new(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, field: field.into(), value, detail: detail.into() }
    }

    /// Malformed.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, Some(value.into()), detail)
    }

    /// Missing.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, None, detail)
    }

    /// Not allowed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, None, detail)
    }

    /// Not one of `known`; the list is formatted as in kube-apiserver.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|word| go_quote(word)).collect();
        let detail =
            if known.is_empty() { String::new() } else { format!("supported values: {}", known.join(", ")) };
        Self::new(FieldErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// Duplicate.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, Some(value.into()), "")
    }

    /// Longer than `most` bytes.
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        Self::new(FieldErrorKind::TooLong, field, None, format!("may not be more than {most} bytes"))
    }

    /// The text without the field path.
    pub fn body(&self) -> String {
        let mut text = self.kind.description().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            text.push_str(": ");
            match value {
                Value::String(word) => text.push_str(&go_quote(word)),
                other => text.push_str(&escape_html(&other.to_string())),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    pub(super) fn cause(&self) -> StatusCause {
        StatusCause { reason: self.kind.reason().to_owned(), message: self.body(), field: self.field.clone() }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.field, self.body())
    }
}

/// A single error as it is, several in brackets without duplicate texts.
pub(super) fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Escapes JSON as Go does for HTML: these characters occur only in strings.
fn escape_html(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Quotes a string like Go's `%q`.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            control if control.is_control() && u32::from(control) < 0x80 => {
                let _ = write!(out, "\\x{:02x}", u32::from(control));
            }
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            // Go escapes everything that its tables call unprintable; of Latin-1 these two are left.
            '\u{a0}' | '\u{ad}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
