//! What the check of one value came to.

use serde_json::Value;

use crate::failure::{FieldError, FieldErrorKind};

/// Faults found, and how much was right (a count that picks the best of several alternatives).
#[derive(Debug, Default)]
pub struct Verdict {
    pub faults: Vec<Fault>,
    pub matches: u64,
}

/// One fault. The same text is never reported twice.
#[derive(Debug, Clone)]
pub struct Fault {
    text: String,
    /// Path of the value, as the validator spells it; `None` where a whole alternative failed.
    name: Option<String>,
    kind: FieldErrorKind,
    value: Option<Value>,
    /// Shown instead of the text.
    detail: Option<String>,
}

impl Fault {
    /// A fault whose text is what the client sees.
    pub fn new(kind: FieldErrorKind, name: &str, value: Value, text: String) -> Self {
        Self { text, name: Some(name.to_owned()), kind, value: Some(value), detail: None }
    }

    /// A malformed value.
    pub fn invalid(name: &str, value: Value, text: String) -> Self {
        Self::new(FieldErrorKind::Invalid, name, value, text)
    }

    /// A fault of a value as a whole, without a path of its own.
    pub fn whole(text: String) -> Self {
        let value = Some(Value::String(String::new()));
        Self { text, name: None, kind: FieldErrorKind::Invalid, value, detail: None }
    }

    /// Shows something else than its text.
    pub fn showing(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// A fault that shows no value.
    pub fn without_value(mut self) -> Self {
        self.value = None;
        self
    }

    fn error(self, prefix: &str) -> FieldError {
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

impl Verdict {
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn add(&mut self, fault: Fault) {
        if !self.faults.iter().any(|known| known.text == fault.text) {
            self.faults.push(fault);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        other.faults.into_iter().for_each(|fault| self.add(fault));
    }

    /// Errors for a client; `prefix` is where the checked value stands in its object, empty for the root.
    pub fn errors(self, prefix: &str) -> Vec<FieldError> {
        self.faults.into_iter().map(|fault| fault.error(prefix)).collect()
    }
}

/// A value as an error shows it: keys in order, whole numbers without a fraction.
pub fn shown(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            keys.into_iter().filter_map(|key| map.get(key).map(|value| (key.clone(), shown(value)))).collect()
        }
        Value::Array(list) => list.iter().map(shown).collect(),
        Value::Number(number) => whole(number).map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within 53 bits come here")]
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}
