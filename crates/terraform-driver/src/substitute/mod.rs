//! Substitutes upstream's placeholders `${WORKSPACE_NAME}` and `${key}` in a `WorkspaceTemplate`, safe against injection.
//!
//! Upstream replaces text in the JSON of the whole spec. Here placeholders are replaced in the *values* of the spec, so a quote or
//! line break in a value cannot escape from it. The rules:
//!
//! | where | `${key}` with a known key becomes | `${name}` with an unknown name |
//! |---|---|---|
//! | any string or object key of the spec | the value | is an error |
//! | inline HCL, inside quotes or a heredoc | the value as literal text | is an error, unless a `for` there declares the name |
//! | inline HCL, outside quotes | the value, which must be a literal or an identifier | is an error |
//! | inline HCL, in a comment | stays | stays |
//! | inline JSON, in a string | the value as literal text | as in HCL |
//!
//! Everywhere: `$${…}`, `${var.x}`, `${f(x)}` and other expressions stay; a substituted value is not scanned again; a known key
//! takes precedence over everything else of that name, as in upstream.

mod scan;
mod unresolved;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Key of the workspace's name.
pub const WORKSPACE_NAME: &str = "WORKSPACE_NAME";

/// A placeholder that cannot be substituted.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum SubstituteError {
    /// It has no value.
    #[error(
        "{path}: `${{{name}}}` is not resolved; add `{name}` to the variables, or write `$${{{name}}}` if the text itself is meant"
    )]
    Unresolved {
        /// Where in the spec.
        path: String,
        /// The placeholder's name.
        name: String,
    },
    /// It is outside quotes, and its value is not a literal.
    #[error(
        "{path}: the value of `{name}` is outside quotes and neither a literal nor an identifier; write \"${{{name}}}\" in quotes"
    )]
    NotLiteral {
        /// Where in the spec.
        path: String,
        /// The placeholder's name.
        name: String,
    },
    /// Two keys of an object are equal after substitution.
    #[error("{path}: two keys become `{key}`")]
    SameKey {
        /// Where in the spec.
        path: String,
        /// The key.
        key: String,
    },
    /// An inline JSON module is not valid JSON.
    #[error("{path}: inlineFormat is JSON, but the module is not valid JSON ({reason})")]
    NotJson {
        /// Where in the spec.
        path: String,
        /// Error of the parser.
        reason: String,
    },
}

/// Values by key.
#[derive(Debug, Clone)]
pub struct PlaceholderValues<'a> {
    workspace_name: &'a str,
    variables: &'a BTreeMap<String, String>,
}

impl<'a> PlaceholderValues<'a> {
    /// From the workspace's name and the variables of the object that applies the template.
    pub const fn new(workspace_name: &'a str, variables: &'a BTreeMap<String, String>) -> Self {
        Self { workspace_name, variables }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        if key == WORKSPACE_NAME {
            return Some(self.workspace_name);
        }
        self.variables.get(key).map(String::as_str)
    }
}

/// Substitutes the placeholders of a template's `spec` (the object with `forProvider`). Reports all errors at once.
pub fn substitute_placeholders(
    spec: &Value,
    values: &PlaceholderValues<'_>,
) -> Result<Value, Vec<SubstituteError>> {
    let inline = inline_module(spec);
    let mut walk = Substitution { values, skips_module: inline.is_some(), errors: Vec::new() };
    let mut done = walk.value(spec, "");
    if let Some(module) = inline {
        let path = "forProvider.module";
        let text = match module {
            InlineModule::Hcl(text) => walk.hcl(text, path),
            InlineModule::Json(text) => walk.json_module(text, path),
        };
        if let Some(place) = done.pointer_mut("/forProvider/module") {
            *place = Value::from(text);
        }
    }
    if walk.errors.is_empty() { Ok(done) } else { Err(walk.errors) }
}

enum InlineModule<'a> {
    Hcl(&'a str),
    Json(&'a str),
}

fn inline_module(spec: &Value) -> Option<InlineModule<'_>> {
    let text = |name: &str| spec.get("forProvider")?.get(name)?.as_str();
    let module = text("module").filter(|_| text("source") == Some("Inline"))?;
    Some(if text("inlineFormat") == Some("JSON") {
        InlineModule::Json(module)
    } else {
        InlineModule::Hcl(module)
    })
}

struct Substitution<'a> {
    values: &'a PlaceholderValues<'a>,
    /// An inline module is substituted separately, by the rules of its language.
    skips_module: bool,
    errors: Vec<SubstituteError>,
}

impl Substitution<'_> {
    fn value(&mut self, value: &Value, path: &str) -> Value {
        match value {
            Value::String(_) if self.skips_module && path == "forProvider.module" => value.clone(),
            Value::String(text) => Value::from(self.plain(text, path)),
            Value::Array(items) => {
                items.iter().enumerate().map(|(i, item)| self.value(item, &format!("{path}[{i}]"))).collect()
            }
            Value::Object(map) => Value::Object(self.object(map, path)),
            scalar => scalar.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, path: &str) -> Map<String, Value> {
        let mut done = Map::new();
        for (key, item) in map {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let key = self.plain(key, &below);
            let item = self.value(item, &below);
            if done.insert(key.clone(), item).is_some() {
                self.errors.push(SubstituteError::SameKey { path: path.to_owned(), key });
            }
        }
        done
    }

    fn plain(&mut self, text: &str, path: &str) -> String {
        let (done, unresolved) = scan::scan_plain(text, self.values);
        self.unresolved(unresolved, path);
        done
    }

    fn hcl(&mut self, text: &str, path: &str) -> String {
        let scan::ScanOutput { text: done, unresolved, not_literal } = scan::scan_hcl(text, self.values);
        self.unresolved(unresolved, path);
        self.unresolved(unresolved::unresolved_in_body(&done), path);
        let path = || path.to_owned();
        self.errors
            .extend(not_literal.into_iter().map(|name| SubstituteError::NotLiteral { path: path(), name }));
        done
    }

    /// Keeps the text unchanged if it has no placeholders.
    fn json_module(&mut self, text: &str, path: &str) -> String {
        let module: Value = match serde_json::from_str(text) {
            Ok(module) => module,
            Err(error) => {
                let reason = error.to_string();
                self.errors.push(SubstituteError::NotJson { path: path.to_owned(), reason });
                return text.to_owned();
            }
        };
        let done = self.json_template(&module, path);
        if done == module { text.to_owned() } else { format!("{done:#}\n") }
    }

    fn json_template(&mut self, value: &Value, path: &str) -> Value {
        match value {
            Value::String(text) => Value::from(self.template(text, path)),
            Value::Array(items) => items.iter().map(|item| self.json_template(item, path)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, item)| (self.plain(key, path), self.json_template(item, path)))
                .collect(),
            scalar => scalar.clone(),
        }
    }

    fn template(&mut self, text: &str, path: &str) -> String {
        let scan::ScanOutput { text: done, unresolved, not_literal } = scan::scan_template(text, self.values);
        self.unresolved(unresolved, path);
        self.unresolved(unresolved::unresolved_in_template(&done), path);
        let path = || path.to_owned();
        self.errors
            .extend(not_literal.into_iter().map(|name| SubstituteError::NotLiteral { path: path(), name }));
        done
    }

    fn unresolved(&mut self, names: impl IntoIterator<Item = String>, path: &str) {
        for name in names {
            let error = SubstituteError::Unresolved { path: path.to_owned(), name };
            if !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
