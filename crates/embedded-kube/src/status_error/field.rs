//! Faults of single fields, in the words of the real server.

use std::fmt::Write as _;

use serde_json::Value;

use super::Cause;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Names something that is not there.
    NotFound,
    /// Must be given.
    Required,
    /// Must be unique.
    Duplicate,
    /// Malformed or out of bounds.
    Invalid,
    /// Not one of the known values.
    NotSupported,
    /// Well-formed, but not allowed here.
    Forbidden,
    /// Longer than it may be.
    TooLong,
    /// Shorter than it must be.
    TooShort,
    /// More items than there may be.
    TooMany,
    /// Fewer items than there must be.
    TooFew,
    /// Our own fault.
    Internal,
    /// Of the wrong JSON type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The cause's `reason`.
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

    fn words(self) -> &'static str {
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

/// One fault of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub kind: FieldErrorKind,
    /// Path, such as `spec.ports[0].port`.
    pub field: String,
    /// The value as given; `None` is left out of the text.
    pub value: Option<Value>,
    /// What is expected instead; may be empty.
    pub detail: String,
}

impl FieldError {
    /// From its parts.
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

    /// Not one of `known`; the list is shown as the real server shows it.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|word| quoted(word)).collect();
        let detail =
            if known.is_empty() { String::new() } else { format!("supported values: {}", known.join(", ")) };
        Self::new(FieldErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// Given twice.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, Some(value.into()), "")
    }

    /// Longer than `most` bytes.
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        Self::new(FieldErrorKind::TooLong, field, None, format!("may not be more than {most} bytes"))
    }

    /// The text without the field's path.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            text.push_str(": ");
            match value {
                Value::String(word) => text.push_str(&quoted(word)),
                other => text.push_str(&escaped(&other.to_string())),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    pub(super) fn cause(&self) -> Cause {
        Cause { reason: self.kind.reason().to_owned(), message: self.body(), field: self.field.clone() }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.field, self.body())
    }
}

/// One fault as it is, several in brackets, each text once.
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

/// JSON as Go writes it: these letters occur in strings alone, and never as themselves.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A string as Go's `%q` shows it.
pub fn quoted(text: &str) -> String {
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
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
