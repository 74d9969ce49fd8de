//! Upstream's `${WORKSPACE_NAME}` and `${key}` in a `WorkspaceTemplate`, without its injections (upstream B18).
//!
//! Upstream replaces text in the JSON of the whole spec. Here the placeholders are replaced in the spec's *values*, so
//! a quote or a line break in a value cannot leave it. The rules:
//!
//! | where | `${key}` with a known key becomes | `${name}` with an unknown name |
//! |---|---|---|
//! | any string or object key of the spec | the value | is an error |
//! | inline HCL, inside quotes or a heredoc | the value as literal text | is an error, unless a `for` there declares the name |
//! | inline HCL, outside of quotes | the value, which has to be a literal or an identifier | is an error |
//! | inline HCL, in a comment | stays | stays |
//! | inline JSON, in a string | the value as literal text | as in HCL |
//!
//! Everywhere: `$${…}` stays; `${var.x}`, `${f(x)}` and other expressions stay; a value is never searched again; a
//! key that is known wins over everything else of that name, as upstream.

mod scan;
mod unresolved;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The key under which the workspace's name is known.
pub const WORKSPACE_NAME: &str = "WORKSPACE_NAME";

/// A placeholder that cannot be replaced.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum SubstituteError {
    /// Nobody gave a value for it.
    #[error(
        "{path}: `${{{name}}}` is not resolved; add `{name}` to the variables, or write `$${{{name}}}` if the text itself is meant"
    )]
    Unresolved {
        /// Where in the spec.
        path: String,
        /// The placeholder's name.
        name: String,
    },
    /// Its value would become part of the code, and it is more than a literal.
    #[error(
        "{path}: the value of `{name}` stands outside of quotes and is neither a literal nor an identifier; write \"${{{name}}}\" in quotes"
    )]
    NotLiteral {
        /// Where in the spec.
        path: String,
        /// The placeholder's name.
        name: String,
    },
    /// Two keys of one object became equal.
    #[error("{path}: two keys become `{key}`")]
    SameKey {
        /// Where in the spec.
        path: String,
        /// The key.
        key: String,
    },
    /// An inline module in JSON that is not JSON.
    #[error("{path}: not JSON, although inlineFormat says so ({reason})")]
    NotJson {
        /// Where in the spec.
        path: String,
        /// What the parser says.
        reason: String,
    },
}

/// The values by key.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    workspace_name: &'a str,
    variables: &'a BTreeMap<String, String>,
}

impl<'a> Values<'a> {
    /// The workspace's name, and the variables of the object that applies the template.
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

/// Replaces the placeholders of a template's `spec` (the object that holds `forProvider`). All problems at once.
pub fn substitute(spec: &Value, values: &Values<'_>) -> Result<Value, Vec<SubstituteError>> {
    let inline = inline_module(spec);
    let mut walk = Walk { values, skips_module: inline.is_some(), errors: Vec::new() };
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

struct Walk<'a> {
    values: &'a Values<'a>,
    /// An inline module is replaced afterwards, by the rules of its language.
    skips_module: bool,
    errors: Vec<SubstituteError>,
}

impl Walk<'_> {
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
        let (done, unresolved) = scan::plain(text, self.values);
        self.unresolved(unresolved, path);
        done
    }

    fn hcl(&mut self, text: &str, path: &str) -> String {
        let scan::Scanned { text: done, unresolved, not_literal } = scan::hcl(text, self.values);
        self.unresolved(unresolved, path);
        self.unresolved(unresolved::in_body(&done), path);
        let path = || path.to_owned();
        self.errors
            .extend(not_literal.into_iter().map(|name| SubstituteError::NotLiteral { path: path(), name }));
        done
    }

    /// The text is kept as it is if there is nothing to replace in it.
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
        let scan::Scanned { text: done, unresolved, not_literal } = scan::template(text, self.values);
        self.unresolved(unresolved, path);
        self.unresolved(unresolved::in_template(&done), path);
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
