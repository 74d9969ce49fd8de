//! Splits text into documents. Parsed as YAML; falls back to JSON for text that YAML rejects (tabs).

use serde_json::Value;
use serde_saphyr::Spanned;

use super::error::{ManifestError, Origin};

/// A manifest file.
#[derive(Clone, Debug)]
pub struct ManifestSource {
    /// Its name, for messages.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// A document and its location.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its location.
    pub origin: Origin,
    /// Its content.
    pub value: Value,
}

/// All documents of a file. Items of a `List` count as documents.
pub fn parse_documents(source: &ManifestSource) -> Result<Vec<Document>, Box<ManifestError>> {
    let mut found = Vec::new();
    for (index, (line, value)) in parse_values(source)?.into_iter().enumerate() {
        let origin = Origin { file: source.name.clone(), document: index + 1, line };
        expand_list(origin, value, &mut found);
    }
    if found.is_empty() {
        return Err(Box::new(ManifestError::Empty { file: source.name.clone() }));
    }
    Ok(found)
}

fn expand_list(origin: Origin, value: Value, found: &mut Vec<Document>) {
    match value {
        Value::Null => {}
        Value::Object(mut object) if object.get("kind").and_then(Value::as_str) == Some("List") => {
            if let Some(Value::Array(items)) = object.remove("items") {
                for item in items {
                    expand_list(origin.clone(), item, found);
                }
            }
        }
        value => found.push(Document { origin, value }),
    }
}

fn parse_values(source: &ManifestSource) -> Result<Vec<(u64, Value)>, Box<ManifestError>> {
    let text = source.text.trim_start_matches('\u{feff}');
    match serde_saphyr::from_multiple::<Spanned<Value>>(text) {
        Ok(documents) => {
            Ok(documents.into_iter().map(|it| (it.referenced.line().max(1), it.value)).collect())
        }
        Err(yaml) => match parse_json(text) {
            Some(documents) => Ok(documents),
            None => Err(Box::new(yaml_error(source, &yaml))),
        },
    }
}

fn parse_json(text: &str) -> Option<Vec<(u64, Value)>> {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let documents: Vec<_> = documents.collect::<Result<_, _>>().ok()?;
    Some(documents.into_iter().map(|value| (1, value)).collect())
}

fn yaml_error(source: &ManifestSource, error: &serde_saphyr::Error) -> ManifestError {
    // Without the snippet: the file may contain Secrets, and a problem is one line.
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |at| (at.line().max(1), at.column().max(1)));
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default().to_owned();
    ManifestError::NotYaml { file: source.name.clone(), line, column, message }
}
