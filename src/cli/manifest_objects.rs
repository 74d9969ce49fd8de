//! Objects of files as an API server gets them: any kind, in the order of the documents. What it refuses is said
//! with the file, the object, the field and the remedy.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use kube::core::{GroupVersionKind, response::StatusCause};
use serde_json::Value;

use super::files::{problems, read};
use crate::{
    config::Outer,
    manifest::{Document, ManifestError, Objection, Origin, documents, judge},
    model::Limits,
};

/// An object that somebody wants.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) document: Document,
    pub(super) gvk: GroupVersionKind,
    /// Where it belongs, if its kind has namespaces.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.gvk.kind, self.namespace, self.name)
    }
}

/// All objects of some files; everything that is wrong with the files is said at once.
pub(super) fn load(paths: &[PathBuf], outer: &Outer) -> anyhow::Result<Vec<Wanted>> {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        for source in read(path, outer)? {
            match documents(&source) {
                Ok(documents) => {
                    for document in documents {
                        match wanted(document) {
                            Ok(wanted) => found.push(wanted),
                            Err(error) => errors.push(*error),
                        }
                    }
                }
                Err(error) => errors.push(*error),
            }
        }
    }
    errors.extend(duplicates(&found));
    if errors.is_empty() { Ok(found) } else { Err(problems(errors)) }
}

fn wanted(document: Document) -> Result<Wanted, Box<ManifestError>> {
    let origin = &document.origin;
    if !document.value.is_object() {
        return Err(Box::new(ManifestError::NotAnObject { origin: origin.clone() }));
    }
    let text =
        |path: &str| document.value.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |path: &str, field: &'static str| {
        let missing = || Box::new(ManifestError::NoType { origin: origin.clone(), field });
        text(path).map(str::to_owned).ok_or_else(missing)
    };
    let api_version = needed("/apiVersion", "apiVersion")?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let gvk = GroupVersionKind::gvk(group, version, &needed("/kind", "kind")?);
    let name = needed("/metadata/name", "metadata.name")?;
    let namespace = text("/metadata/namespace").unwrap_or("default").to_owned();
    Ok(Wanted { document, gvk, namespace, name })
}

fn duplicates(all: &[Wanted]) -> Vec<ManifestError> {
    let mut seen: BTreeMap<String, &Origin> = BTreeMap::new();
    let mut errors = Vec::new();
    for wanted in all {
        let (object, second) = (wanted.to_string(), &wanted.document.origin);
        let key = format!("{}/{object}", wanted.gvk.group);
        match seen.get(&key) {
            Some(first) => errors.push(ManifestError::Duplicate {
                object,
                first: (*first).clone(),
                second: second.clone(),
            }),
            None => drop(seen.insert(key, second)),
        }
    }
    errors
}

/// Why an API server refused an object, a line for each thing that it objects to.
pub(super) fn refusal(wanted: &Wanted, error: &kube::Error) -> Vec<String> {
    let start = format!("{}: {wanted}", wanted.document.origin);
    let status = match error {
        kube::Error::Api(status) => status,
        kube::Error::Discovery(_) => return vec![format!("{start}: {}", unserved(wanted))],
        other => return vec![format!("{start}: {}", super::client::explain(other))],
    };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    match status.code {
        404 if status.message.contains("namespaces") => {
            let namespace = &wanted.namespace;
            let remedy = "put it before the object, or make it";
            vec![format!("{start}: the namespace {namespace} does not exist; {remedy}")]
        }
        404 => vec![format!("{start}: {}", unserved(wanted))],
        403 if causes.is_empty() => {
            vec![format!("{start}: {}; use an account that may, with --context", status.message)]
        }
        _ if causes.is_empty() => uncaused(wanted, &start, &status.message),
        _ => caused(wanted, &start, causes),
    }
}

fn unserved(wanted: &Wanted) -> String {
    let (kind, version) = (&wanted.gvk.kind, wanted.gvk.api_version());
    format!("nobody serves {kind} of {version}; install its CRD first, or correct both")
}

/// A field that nobody knows has no cause of its own; our own reader names it.
fn uncaused(wanted: &Wanted, start: &str, message: &str) -> Vec<String> {
    let ours = judge(wanted.document.clone(), &Limits::default());
    let named: Vec<String> = ours.into_iter().filter(|it| is_named(it, message)).map(|it| it.text).collect();
    let plain = || vec![format!("{start}: {}; correct it", one_line(message))];
    if named.is_empty() { plain() } else { named }
}

fn caused(wanted: &Wanted, start: &str, causes: &[StatusCause]) -> Vec<String> {
    let ours = judge(wanted.document.clone(), &Limits::default());
    let mut lines = Vec::new();
    for cause in causes {
        let (field, message) = (cause.field.trim_start_matches('.'), one_line(&cause.message));
        let line = match ours.iter().find(|it| it.path.as_deref() == Some(field)) {
            Some(objection) => objection.text.clone(),
            None if field.is_empty() || field == "<nil>" => format!("{start}: {message}; correct it"),
            None => format!("{start}: {field}: {message}; correct it"),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Whether an API server's sentence is about the same field.
fn is_named(objection: &Objection, message: &str) -> bool {
    objection.path.as_deref().is_none_or(|path| message.contains(path))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
