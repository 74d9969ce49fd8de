//! Field selectors: supported fields per resource, compared as strings.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    object::{self, Document, IndexedMeta},
    registry::Resource,
    status_error::{ApiResult, StatusError, go_quote},
};

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

/// All terms must match. The empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Parses a query parameter; only fields that the resource supports.
    pub fn parse(text: &str, resource: &Resource) -> ApiResult<Self> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                let text = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(StatusError::bad_request(text));
            };
            terms.push(Term { field: field.to_owned(), value: unescaped(value)?, equal });
        }
        for term in &mut terms {
            validate_selectable(&term.field, resource)?;
            // Clients from before v1 use this name for a Pod's node.
            if term.field == "spec.host" && !resource.is_custom {
                "spec.nodeName".clone_into(&mut term.field);
            }
        }
        Ok(Self { terms })
    }

    /// Matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The only name that can match, if the selector requires one.
    pub fn name(&self) -> Option<&str> {
        self.terms.iter().find(|term| term.field == NAME && term.equal).map(|term| term.value.as_str())
    }

    /// Whether an object may match, by its indexed metadata.
    pub fn may_match(&self, marks: &IndexedMeta) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.field.as_str() {
                NAME => marks.name(),
                NAMESPACE => marks.namespace(),
                _ => return true,
            };
            (value == term.value) == term.equal
        })
    }

    /// Whether a stored object matches; parsed only if its indexed metadata does not decide.
    pub fn matches_document(&self, document: &Document) -> bool {
        let is_told = self.terms.iter().all(|term| matches!(term.field.as_str(), NAME | NAMESPACE));
        self.may_match(document.indexed_meta()) && (is_told || self.matches(&document.value()))
    }

    /// Whether an object matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| (field_value(object, &term.field) == term.value) == term.equal)
    }
}

fn validate_selectable(field: &str, resource: &Resource) -> ApiResult<()> {
    let is_name = field == NAME;
    let is_namespace = field == NAMESPACE;
    // Kinds with own fields support the namespace only if they are namespaced; the others always support both.
    let own = resource.is_custom || !resource.selectable_fields.is_empty();
    if is_name
        || (is_namespace && (resource.namespaced || !own))
        || resource.selectable_fields.iter().any(|one| one == field)
    {
        return Ok(());
    }
    Err(StatusError::bad_request(if own {
        format!("field label not supported: {field}")
    } else {
        format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            go_quote(field)
        )
    }))
}

/// A field as a string; empty if missing.
fn field_value<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    match field {
        "spec.hostNetwork" | "spec.unschedulable" => {
            return if by_path(object, field).and_then(Value::as_bool) == Some(true) {
                "true".into()
            } else {
                "false".into()
            };
        }
        // kube-apiserver accepts this field but never fills it.
        "status.podIPs" => return "".into(),
        "source" => {
            let component = object::str_at(object, &["source", "component"]);
            let controller = object::str_at(object, &["reportingComponent"]);
            return if component.is_empty() { controller } else { component }.into();
        }
        _ => {}
    }
    match by_path(object, field).or_else(|| by_path(object, &stored_name(field)?)) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Bool(yes)) => yes.to_string().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "".into(),
    }
}

/// Events are stored in their core form, where the fields of `events.k8s.io` have other names.
fn stored_name(field: &str) -> Option<String> {
    match field.split_once('.') {
        Some(("regarding", rest)) => Some(format!("involvedObject.{rest}")),
        _ => (field == "reportingController").then(|| "reportingComponent".to_owned()),
    }
}

fn by_path<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    field.split('.').try_fold(object, |value, key| value.get(key))
}

/// Splits at commas; a backslash escapes the next character.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut protected) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if protected => protected = false,
            '\\' => protected = true,
            ',' => {
                terms.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        let found =
            |operator: &str, equal: bool| rest.strip_prefix(operator).map(|value| (field, equal, value));
        found("!=", false).or_else(|| found("==", true)).or_else(|| found("=", true))
    })
}

fn unescaped(value: &str) -> ApiResult<String> {
    let invalid = |sequence: &str| {
        StatusError::bad_request(format!("invalid field selector: invalid escape sequence: {sequence}"))
    };
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => return Err(invalid(&format!("\\{next}"))),
                None => return Err(invalid("\\")),
            },
            ',' | '=' => {
                let number = u32::from(letter);
                let text = format!("invalid field selector: unescaped character in value: {number}");
                return Err(StatusError::bad_request(text));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}
