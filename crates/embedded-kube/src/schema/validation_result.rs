//! Result of validating a value.

use serde_json::Value;

use crate::status_error::{FieldError, FieldErrorKind};

/// Errors, and the number of matches (which selects the closest of several alternatives).
#[derive(Debug, Default)]
pub struct ValidationResult {
    pub errors: Vec<ValidationError>,
    pub matches: u64,
}

/// An error. The same text is never reported twice.
#[derive(Debug, Clone)]
pub struct ValidationError {
    text: String,
    /// Path of the value, as the validator formats it; `None` if a whole alternative failed.
    name: Option<String>,
    kind: FieldErrorKind,
    value: Option<Value>,
    /// Shown instead of the text.
    detail: Option<String>,
}

impl ValidationError {
    /// An error whose text is shown to the client.
    pub fn new(kind: FieldErrorKind, name: &str, value: Value, text: String) -> Self {
        Self { text, name: Some(name.to_owned()), kind, value: Some(value), detail: None }
    }

    /// An invalid value.
    pub fn invalid(name: &str, value: Value, text: String) -> Self {
        Self::new(FieldErrorKind::Invalid, name, value, text)
    }

    /// An error about a value as a whole, without a path.
    pub fn without_path(text: String) -> Self {
        let value = Some(Value::String(String::new()));
        Self { text, name: None, kind: FieldErrorKind::Invalid, value, detail: None }
    }

    /// Shows `detail` instead of the text.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Omits the value.
    pub fn without_value(mut self) -> Self {
        self.value = None;
        self
    }

    fn into_field_error(self, prefix: &str) -> FieldError {
        let name =
            self.name.as_deref().map(|name| name.strip_prefix('.').unwrap_or(name)).unwrap_or_default();
        let field = match (prefix.is_empty(), name.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (true, false) => name.to_owned(),
            (false, true) => prefix.to_owned(),
            (false, false) => format!("{prefix}.{name}"),
        };
        FieldError::new(self.kind, field, self.value, self.detail.unwrap_or(self.text))
    }
}

impl ValidationResult {
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub fn add(&mut self, fault: ValidationError) {
        if !self.errors.iter().any(|known| known.text == fault.text) {
            self.errors.push(fault);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        other.errors.into_iter().for_each(|fault| self.add(fault));
    }

    /// Converts to client errors; `prefix` is the path of the validated value in its object, empty for the root.
    pub fn into_field_errors(self, prefix: &str) -> Vec<FieldError> {
        self.errors.into_iter().map(|fault| fault.into_field_error(prefix)).collect()
    }
}

/// A value as errors show it: sorted keys, integers without a fraction.
pub fn display_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            keys.into_iter()
                .filter_map(|key| map.get(key).map(|value| (key.clone(), display_value(value))))
                .collect()
        }
        Value::Array(list) => list.iter().map(display_value).collect(),
        Value::Number(number) => whole(number).map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only integers within 53 bits reach this")]
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}
