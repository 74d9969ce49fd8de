//! Content negotiation: the first clause of `Accept` that is supported.

use std::cmp::Ordering;

use super::query::Query;
use crate::status_error::{ApiResult, StatusError};

/// Response encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// What the response contains of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projection {
    /// Whole objects.
    Whole,
    /// `Table` of `meta.k8s.io` at this version.
    Table(String),
    /// `PartialObjectMetadata` at this version.
    PartialMetadata(String),
    /// `PartialObjectMetadataList` at this version.
    PartialMetadataList(String),
}

/// Negotiated representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    /// Encoding.
    pub format: Format,
    /// Projection of the objects.
    pub projection: Projection,
    /// Whether the output is indented.
    pub pretty: bool,
}

impl Representation {
    /// JSON of whole objects.
    pub fn json() -> Self {
        Self { format: Format::Json, projection: Projection::Whole, pretty: false }
    }
}

struct AcceptClause<'a> {
    kind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

fn clauses(header: &str) -> Vec<AcceptClause<'_>> {
    let mut all: Vec<AcceptClause<'_>> = header
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
            Some(AcceptClause { kind, quality, parameters })
        })
        .collect();
    // A stable sort: clauses of equal quality keep the client's order.
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

/// The projection that a clause requests; `None` if it is not supported.
fn projection_of(clause: &AcceptClause<'_>) -> Option<Projection> {
    let get = |key: &str| clause.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    if get("stream").is_some_and(|stream| !matches!(stream, "" | "watch")) {
        return None;
    }
    let Some(kind) = get("as") else {
        return if get("g").is_some() || get("v").is_some() { None } else { Some(Projection::Whole) };
    };
    let version = get("v").unwrap_or_default();
    if get("g") != Some("meta.k8s.io") || !matches!(version, "v1" | "v1beta1") {
        return None;
    }
    match kind {
        "Table" => Some(Projection::Table(version.to_owned())),
        "PartialObjectMetadata" => Some(Projection::PartialMetadata(version.to_owned())),
        "PartialObjectMetadataList" => Some(Projection::PartialMetadataList(version.to_owned())),
        _ => None,
    }
}

/// Negotiates by `Accept`, the query and, for interactive tools, the `User-Agent`.
pub fn negotiate(accept: &str, query: &Query, agent: &str) -> ApiResult<Representation> {
    let pretty = match query.get("pretty") {
        Some(value) if !value.is_empty() => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool)),
    };
    if accept.is_empty() {
        return Ok(Representation { pretty, ..Representation::json() });
    }
    clauses(accept)
        .iter()
        .find_map(|clause| {
            let format = format_of(clause.kind)?;
            let view = projection_of(clause)?;
            let pretty = pretty || clause.parameters.contains(&("pretty", "1"));
            Some(Representation { format, projection: view, pretty })
        })
        .ok_or_else(not_acceptable)
}

/// 406: none of the accepted representations is supported.
pub fn not_acceptable() -> StatusError {
    let text = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    StatusError::new(406, "NotAcceptable", text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(accept: &str) -> Projection {
        negotiate(accept, &Query::default(), "").unwrap().projection
    }

    #[test]
    fn the_first_clause_that_we_serve_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(view(kubectl), Projection::Table("v1".to_owned()));
        assert_eq!(view("application/vnd.kubernetes.protobuf,application/json"), Projection::Whole);
        assert_eq!(view("application/json;as=Graph;v=v1;g=meta.k8s.io, */*"), Projection::Whole);
        assert_eq!(
            view("application/json;q=0.5,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            Projection::PartialMetadata("v1".to_owned())
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
        assert!(!negotiate("*/*", &Query::parse(Some("pretty=false")), "curl/8").unwrap().pretty);
        assert!(!negotiate("", &Query::default(), "kubectl/v1").unwrap().pretty);
    }
}
