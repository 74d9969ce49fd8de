//! Validates a `RouteGroup`.

use capt_kinds::sandbox::{Clause, LabelMatch, Match, NamespaceScope, RouteGroup, RouteGroupSpec, schema};
use kube::ResourceExt as _;

use super::problems::{
    HEADER_NAME, LABEL_GLOB, LABEL_KEY, Problems, QUERY_PARAM, ROUTING_KEY, TTL, check_object_name,
};
use crate::{rejection::Rejection, target};

/// Validates the name and the spec.
pub fn validate_group(group: &RouteGroup) -> Result<(), Rejection> {
    check_object_name(&group.name_any(), schema::MAX_NAME)?;
    let mut problems = Problems::default();
    check_spec(&group.spec, &mut problems);
    let before = group.status.as_ref().and_then(|it| it.routing_key.as_deref());
    let asked = group.spec.routing_key.as_deref().filter(|it| !it.is_empty());
    if let (Some(before), Some(asked)) = (before, asked)
        && before != asked
    {
        problems.add("routingKey", format!("cannot be changed: it was {before:?}; make another route group"));
    }
    problems.into_result()?;
    target::parse_targets(&group.spec.endpoints).map(drop)
}

fn check_spec(spec: &RouteGroupSpec, problems: &mut Problems) {
    let RouteGroupSpec { description, matches, namespaces, routing_key, endpoints, routing, ttl } = spec;
    problems.check_length("description", description.as_deref().unwrap_or_default(), 255);
    self::check_match(matches, problems);
    if (namespaces.from == NamespaceScope::Selector) != namespaces.selector.is_some() {
        problems.add("namespaces.selector", "is needed by from Selector, and by nothing else");
    }
    problems.check_pattern("routingKey", routing_key.as_deref().unwrap_or_default(), (&ROUTING_KEY, 63));
    problems.check_endpoints(endpoints);
    problems.check_count("routing.customHeaders", routing.custom_headers.len(), 8);
    problems.check_unique("routing.customHeaders", "name", routing.custom_headers.iter().map(String::as_str));
    for (index, name) in routing.custom_headers.iter().enumerate() {
        problems.check_text(&format!("routing.customHeaders[{index}]"), name, (&HEADER_NAME, 64));
    }
    problems.check_pattern(
        "routing.queryParam",
        routing.query_param.as_deref().unwrap_or_default(),
        (&QUERY_PARAM, 64),
    );
    if let Some(ttl) = ttl {
        problems.check_text("ttl.duration", &ttl.duration, (&TTL, 11));
    }
}

fn check_match(found: &Match, problems: &mut Problems) {
    let Match { label, any, all } = found;
    check_exactly_one("match", [label.is_some(), any.is_some(), all.is_some()], problems);
    if let Some(label) = label {
        self::check_label("match.label", label, problems);
    }
    for (field, clauses) in [("match.any", any), ("match.all", all)] {
        let Some(clauses) = clauses else { continue };
        check_clause_count(field, clauses.len(), problems);
        for (index, one) in clauses.iter().enumerate() {
            check_clause(&format!("{field}[{index}]"), one, problems);
        }
    }
}

fn check_clause(path: &str, found: &Clause, problems: &mut Problems) {
    let Clause { label, any, all } = found;
    check_exactly_one(path, [label.is_some(), any.is_some(), all.is_some()], problems);
    if let Some(label) = label {
        self::check_label(&format!("{path}.label"), label, problems);
    }
    for (field, leaves) in [("any", any), ("all", all)] {
        let Some(leaves) = leaves else { continue };
        check_clause_count(&format!("{path}.{field}"), leaves.len(), problems);
        for (index, leaf) in leaves.iter().enumerate() {
            self::check_label(&format!("{path}.{field}[{index}].label"), &leaf.label, problems);
        }
    }
}

fn check_exactly_one(path: &str, said: [bool; 3], problems: &mut Problems) {
    if said.iter().filter(|it| **it).count() != 1 {
        problems.add(path, "needs exactly one of label, any and all");
    }
}

fn check_clause_count(path: &str, count: usize, problems: &mut Problems) {
    if count == 0 {
        problems.add(path, "must not be empty");
    }
    problems.check_count(path, count, schema::MAX_CLAUSES);
}

fn check_label(path: &str, label: &LabelMatch, problems: &mut Problems) {
    problems.check_text(&format!("{path}.key"), &label.key, (&LABEL_KEY, 317));
    problems.check_pattern(&format!("{path}.value"), &label.value, (&LABEL_GLOB, 63));
}
