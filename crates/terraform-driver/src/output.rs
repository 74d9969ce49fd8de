//! Outputs of a workspace, read from its state file without `terraform output`.
//!
//! Sensitive outputs are wrapped in [`Sensitive`], which cannot be printed or serialised by accident.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::Value;

/// Placeholder for a redacted value.
pub const REDACTED: &str = "(sensitive value)";

/// A value that cannot be printed: `Debug` and `Display` print [`REDACTED`], and `Serialize` is not implemented.
#[derive(Clone, PartialEq, Eq)]
pub struct Sensitive<T>(T);

impl<T> Sensitive<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The plain value. Review every caller.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// The plain value, owned.
    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Sensitive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T> fmt::Display for Sensitive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Why the outputs of a state file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The bytes are not a state file.
    #[error("cannot parse the outputs in the state file")]
    NotState(#[source] serde_json::Error),
    /// Unsupported format version; version 4 is terraform's since 0.12.
    #[error("the state file has format version {found}, and only version 4 can be read")]
    Format {
        /// The version the file names.
        found: u64,
    },
    /// The state is encrypted by `OpenTofu`.
    #[error(
        "the state file is encrypted, so its outputs cannot be read; remove the `encryption` block from the configuration"
    )]
    Encrypted,
}

/// The value of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputValue {
    /// May be shown and written to a status.
    Plain(Value),
    /// Marked sensitive by the module: only for the connection Secret.
    Sensitive(Sensitive<Value>),
}

/// One output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its value.
    pub value: OutputValue,
    /// Terraform's type of it: `"string"`, `["list","string"]`, …
    pub ty: Value,
}

impl Output {
    /// Whether the module marked it sensitive.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.value, OutputValue::Sensitive(_))
    }

    /// The plain value, sensitive or not. Review every caller.
    pub const fn expose(&self) -> &Value {
        match &self.value {
            OutputValue::Plain(value) => value,
            OutputValue::Sensitive(value) => value.expose(),
        }
    }
}

/// All outputs of a workspace, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs(BTreeMap<String, Output>);

#[derive(Deserialize)]
struct StateFile {
    #[serde(default)]
    version: u64,
    #[serde(default)]
    encrypted_data: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    outputs: BTreeMap<String, StateOutput>,
}

#[derive(Deserialize)]
struct StateOutput {
    value: Value,
    #[serde(default, rename = "type")]
    ty: Value,
    #[serde(default)]
    sensitive: bool,
}

impl Outputs {
    /// Reads the outputs of a state file.
    pub fn from_state(state: &[u8]) -> Result<Self, OutputError> {
        let file: StateFile = serde_json::from_slice(state).map_err(OutputError::NotState)?;
        if file.encrypted_data.is_some() {
            return Err(OutputError::Encrypted);
        }
        if file.version != 4 {
            return Err(OutputError::Format { found: file.version });
        }
        let outputs = file.outputs.into_iter().map(|(name, StateOutput { value, ty, sensitive })| {
            let value = if sensitive {
                OutputValue::Sensitive(Sensitive::new(value))
            } else {
                OutputValue::Plain(value)
            };
            (name, Output { value, ty })
        });
        Ok(Self(outputs.collect()))
    }

    /// One output by name.
    pub fn get(&self, name: &str) -> Option<&Output> {
        self.0.get(name)
    }

    /// All outputs in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Output)> {
        self.0.iter().map(|(name, output)| (name.as_str(), output))
    }

    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The outputs that a status or a terminal may show.
    pub fn non_sensitive(&self) -> BTreeMap<&str, &Value> {
        self.0
            .iter()
            .filter_map(|(name, output)| match &output.value {
                OutputValue::Plain(value) => Some((name.as_str(), value)),
                OutputValue::Sensitive(_) => None,
            })
            .collect()
    }

    /// All outputs in the form of the connection Secret: strings as they are, other values as JSON.
    pub fn connection_strings(&self) -> BTreeMap<String, Sensitive<String>> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.0.iter().map(|(name, output)| (name.clone(), Sensitive::new(text(output.expose())))).collect()
    }
}

#[cfg(test)]
mod tests;
