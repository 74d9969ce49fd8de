//! Which representation a client wants: the first clause of `Accept` that we can serve.

use std::cmp::Ordering;

use super::query::Query;
use crate::failure::{Answer, Failure};

/// Encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// What the answer shows of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// The objects.
    Whole,
    /// `Table` of `meta.k8s.io` at this version.
    Table(String),
    /// `PartialObjectMetadata` at this version.
    Partial(String),
    /// `PartialObjectMetadataList` at this version.
    PartialList(String),
}

/// What was negotiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Encoding.
    pub format: Format,
    /// Part of the objects.
    pub view: View,
    /// Indented.
    pub pretty: bool,
}

impl Wanted {
    /// Plain JSON.
    pub fn json() -> Self {
        Self { format: Format::Json, view: View::Whole, pretty: false }
    }
}

struct Clause<'a> {
    kind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut all: Vec<Clause<'_>> = header
        .split(',')
        .filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let kind = parts.next().filter(|kind| !kind.is_empty())?;
            let mut quality = 1.0;
            let mut parameters = Vec::new();
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match (key.trim(), value.trim()) {
                    ("q", value) => quality = value.parse().unwrap_or(1.0),
                    pair => parameters.push(pair),
                }
            }
            Some(Clause { kind, quality, parameters })
        })
        .collect();
    // The sort is stable: clauses of one quality keep the client's order.
    all.sort_by(|left, right| right.quality.partial_cmp(&left.quality).unwrap_or(Ordering::Equal));
    all
}

fn format_of(kind: &str) -> Option<Format> {
    match kind {
        "application/json" | "application/*" | "*/*" => Some(Format::Json),
        "application/yaml" => Some(Format::Yaml),
        _ => None,
    }
}

/// The view that a clause asks for; `None` if there is no such view.
fn view_of(clause: &Clause<'_>) -> Option<View> {
    let get = |key: &str| clause.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    if get("stream").is_some_and(|stream| !matches!(stream, "" | "watch")) {
        return None;
    }
    let Some(kind) = get("as") else {
        return if get("g").is_some() || get("v").is_some() { None } else { Some(View::Whole) };
    };
    let version = get("v").unwrap_or_default();
    if get("g") != Some("meta.k8s.io") || !matches!(version, "v1" | "v1beta1") {
        return None;
    }
    match kind {
        "Table" => Some(View::Table(version.to_owned())),
        "PartialObjectMetadata" => Some(View::Partial(version.to_owned())),
        "PartialObjectMetadataList" => Some(View::PartialList(version.to_owned())),
        _ => None,
    }
}

/// The answer's representation, by `Accept`, the query and, for people's tools, the agent.
pub fn negotiate(accept: &str, query: &Query, agent: &str) -> Answer<Wanted> {
    let pretty = match query.get("pretty") {
        Some(value) if !value.is_empty() => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool)),
    };
    if accept.is_empty() {
        return Ok(Wanted { pretty, ..Wanted::json() });
    }
    clauses(accept)
        .iter()
        .find_map(|clause| {
            let format = format_of(clause.kind)?;
            let view = view_of(clause)?;
            let pretty = pretty || clause.parameters.contains(&("pretty", "1"));
            Some(Wanted { format, view, pretty })
        })
        .ok_or_else(not_acceptable)
}

/// Nothing of what the client accepts is served.
pub fn not_acceptable() -> Failure {
    let text = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    Failure::new(406, "NotAcceptable", text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(accept: &str) -> View {
        negotiate(accept, &Query::default(), "").unwrap().view
    }

    #[test]
    fn the_first_clause_that_we_serve_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(view(kubectl), View::Table("v1".to_owned()));
        assert_eq!(view("application/vnd.kubernetes.protobuf,application/json"), View::Whole);
        assert_eq!(view("application/json;as=Graph;v=v1;g=meta.k8s.io, */*"), View::Whole);
        assert_eq!(
            view("application/json;q=0.5,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            View::Partial("v1".to_owned())
        );
    }

    #[test]
    fn what_we_do_not_serve_is_not_acceptable() {
        let failure = negotiate("image/png", &Query::default(), "").unwrap_err();
        assert_eq!(failure.code(), 406);
        assert!(
            failure.message().starts_with("only the following media types are accepted: application/json")
        );
    }

    #[test]
    fn people_get_it_indented_unless_they_say_no() {
        assert!(negotiate("*/*", &Query::default(), "curl/8").unwrap().pretty);
        assert!(!negotiate("*/*", &Query::of(Some("pretty=false")), "curl/8").unwrap().pretty);
        assert!(!negotiate("", &Query::default(), "kubectl/v1").unwrap().pretty);
    }
}
