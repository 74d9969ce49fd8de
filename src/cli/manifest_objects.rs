//! Manifest objects for an API server: any kind, in document order. Rejections are reported with file, object, field and
//! remedy.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use capt_engine::process_env::ProcessEnv;
use capt_model::{
    manifest::{Document, DocumentProblem, ManifestError, Origin, parse_documents, validate_document},
    model::Limits,
};
use kube::core::{GroupVersionKind, response::StatusCause};
use serde_json::Value;

use super::manifest_files::{join_problems, read_sources};

/// An object of a manifest.
#[derive(Debug, Clone)]
pub(super) struct ManifestObject {
    pub(super) document: Document,
    pub(super) gvk: GroupVersionKind,
    /// Its namespace; ignored for cluster-scoped kinds.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for ManifestObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.gvk.kind, self.namespace, self.name)
    }
}

/// All objects of the files; the error lists every problem.
pub(super) fn load_objects(
    paths: &[PathBuf],
    process_env: &ProcessEnv,
) -> anyhow::Result<Vec<ManifestObject>> {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        for source in read_sources(path, process_env)? {
            match parse_documents(&source) {
                Ok(documents) => {
                    for document in documents {
                        match parse_object(document) {
                            Ok(wanted) => found.push(wanted),
                            Err(error) => errors.push(*error),
                        }
                    }
                }
                Err(error) => errors.push(*error),
            }
        }
    }
    errors.extend(find_duplicates(&found));
    if errors.is_empty() { Ok(found) } else { Err(join_problems(errors)) }
}

fn parse_object(document: Document) -> Result<ManifestObject, Box<ManifestError>> {
    let origin = &document.origin;
    if !document.value.is_object() {
        return Err(Box::new(ManifestError::NotAnObject { origin: origin.clone() }));
    }
    let text =
        |path: &str| document.value.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |path: &str, field: &'static str| {
        let missing = || Box::new(ManifestError::MissingField { origin: origin.clone(), field });
        text(path).map(str::to_owned).ok_or_else(missing)
    };
    let api_version = needed("/apiVersion", "apiVersion")?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let gvk = GroupVersionKind::gvk(group, version, &needed("/kind", "kind")?);
    let name = needed("/metadata/name", "metadata.name")?;
    let namespace = text("/metadata/namespace").unwrap_or("default").to_owned();
    Ok(ManifestObject { document, gvk, namespace, name })
}

fn find_duplicates(all: &[ManifestObject]) -> Vec<ManifestError> {
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

/// Why the API server rejected an object, one line per cause.
pub(super) fn describe_rejection(wanted: &ManifestObject, error: &kube::Error) -> Vec<String> {
    let start = format!("{}: {wanted}", wanted.document.origin);
    let status = match error {
        kube::Error::Api(status) => status,
        kube::Error::Discovery(_) => return vec![format!("{start}: {}", describe_unserved_kind(wanted))],
        other => return vec![format!("{start}: {}", super::kube_api::describe_api_error(other))],
    };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    match status.code {
        404 if status.message.contains("namespaces") => {
            let namespace = &wanted.namespace;
            let remedy = "create it, or add it to the file before the object";
            vec![format!("{start}: the namespace {namespace} does not exist; {remedy}")]
        }
        404 => vec![format!("{start}: {}", describe_unserved_kind(wanted))],
        403 if causes.is_empty() => {
            vec![format!("{start}: {}; use a context with the permission (--context)", status.message)]
        }
        _ if causes.is_empty() => rejection_without_causes(wanted, &start, &status.message),
        _ => rejection_with_causes(wanted, &start, causes),
    }
}

fn describe_unserved_kind(wanted: &ManifestObject) -> String {
    let (kind, version) = (&wanted.gvk.kind, wanted.gvk.api_version());
    format!(
        "the Kubernetes API does not serve {kind} of {version}; install its CRD, or correct kind and apiVersion"
    )
}

/// A strict decoding error has no causes; capt's own validation names the field.
fn rejection_without_causes(wanted: &ManifestObject, start: &str, message: &str) -> Vec<String> {
    let ours = validate_document(wanted.document.clone(), &Limits::default());
    let named: Vec<String> =
        ours.into_iter().filter(|it| concerns_field(it, message)).map(|it| it.text).collect();
    let plain = || vec![format!("{start}: {}; correct it", one_line(message))];
    if named.is_empty() { plain() } else { named }
}

fn rejection_with_causes(wanted: &ManifestObject, start: &str, causes: &[StatusCause]) -> Vec<String> {
    let ours = validate_document(wanted.document.clone(), &Limits::default());
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

/// Whether the API server's message is about the same field.
fn concerns_field(objection: &DocumentProblem, message: &str) -> bool {
    objection.path.as_deref().is_none_or(|path| message.contains(path))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
