//! Field selectors: a few named fields per resource, compared as text.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    failure::{Answer, Failure, quoted},
    object::{self, Document, Marks},
    registry::Resource,
};

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

/// All terms must hold. The empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// From a query parameter; only fields that the resource offers.
    pub fn parse(text: &str, resource: &Resource) -> Answer<Self> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                let text = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(Failure::bad_request(text));
            };
            terms.push(Term { field: field.to_owned(), value: unescaped(value)?, equal });
        }
        for term in &mut terms {
            offered(&term.field, resource)?;
            // Clients from before v1 know the node of a Pod by this name.
            if term.field == "spec.host" && !resource.custom {
                "spec.nodeName".clone_into(&mut term.field);
            }
        }
        Ok(Self { terms })
    }

    /// Matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The only name that is meant, if it says so.
    pub fn name(&self) -> Option<&str> {
        self.terms.iter().find(|term| term.field == NAME && term.equal).map(|term| term.value.as_str())
    }

    /// Whether an object may be meant, by what is kept beside it.
    pub fn may_match(&self, marks: &Marks) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.field.as_str() {
                NAME => marks.name(),
                NAMESPACE => marks.namespace(),
                _ => return true,
            };
            (value == term.value) == term.equal
        })
    }

    /// Whether a stored object is meant; it is parsed only if what is beside it does not tell.
    pub fn matches_document(&self, document: &Document) -> bool {
        let is_told = self.terms.iter().all(|term| matches!(term.field.as_str(), NAME | NAMESPACE));
        self.may_match(document.marks()) && (is_told || self.matches(&document.value()))
    }

    /// Whether an object is meant.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| (value_of(object, &term.field) == term.value) == term.equal)
    }
}

fn offered(field: &str, resource: &Resource) -> Answer<()> {
    let is_name = field == NAME;
    let is_namespace = field == NAMESPACE;
    // Kinds that name fields of their own know the namespace only if they live in one; the rest always know both.
    let own = resource.custom || !resource.selectable.is_empty();
    if is_name
        || (is_namespace && (resource.namespaced || !own))
        || resource.selectable.iter().any(|one| one == field)
    {
        return Ok(());
    }
    Err(Failure::bad_request(if own {
        format!("field label not supported: {field}")
    } else {
        format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quoted(field)
        )
    }))
}

/// A field's value as text; empty where it is missing.
fn value_of<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    match field {
        "spec.hostNetwork" | "spec.unschedulable" => {
            return if by_path(object, field).and_then(Value::as_bool) == Some(true) {
                "true".into()
            } else {
                "false".into()
            };
        }
        // Allowed by the real server, but never filled.
        "status.podIPs" => return "".into(),
        "source" => {
            let component = object::text(object, &["source", "component"]);
            let controller = object::text(object, &["reportingComponent"]);
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

/// Events are kept in their core form, where the fields of `events.k8s.io` have other names.
fn stored_name(field: &str) -> Option<String> {
    match field.split_once('.') {
        Some(("regarding", rest)) => Some(format!("involvedObject.{rest}")),
        _ => (field == "reportingController").then(|| "reportingComponent".to_owned()),
    }
}

fn by_path<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    field.split('.').try_fold(object, |value, key| value.get(key))
}

/// Parts between commas; a backslash protects what follows it.
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

fn unescaped(value: &str) -> Answer<String> {
    let invalid = |sequence: &str| {
        Failure::bad_request(format!("invalid field selector: invalid escape sequence: {sequence}"))
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
                return Err(Failure::bad_request(text));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}
