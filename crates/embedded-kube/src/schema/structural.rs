//! Checks that a schema is structural: every field must be declared with a type outside of `allOf`, `anyOf`, `oneOf`
//! and `not`; these may only restrict values.

use super::parse::{AdditionalProperties, Schema};
use crate::status_error::FieldError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Violations, sorted by text.
pub fn validate_structural(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut found = Vec::new();
    invariants(schema, Level::Root, path, &mut found);
    CompletenessCheck { found: &mut found }.values(schema, schema, path, path);
    found.sort_by_cached_key(ToString::to_string);
    found
}

fn key(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

fn invariants(schema: &Schema, level: Level, path: &str, found: &mut Vec<FieldError>) {
    match schema.items.as_deref() {
        Some(items) => invariants(items, Level::Item, &format!("{path}.items"), found),
        None if schema.kind == "array" => {
            found.push(FieldError::required(format!("{path}.items"), "must be specified"));
        }
        None => {}
    }
    for (name, child) in &schema.properties {
        invariants(child, Level::Field, &key(path, name), found);
    }
    additional(schema, level, path, found);
    extensions(schema, path, found);
    let skip = AllowedTypes {
        any_of: is_int_or_string(&schema.any_of),
        first_all_of: is_wrapped_int_or_string(schema),
    };
    values(schema, skip, path, found);
    types(schema, level, path, found);
    metadata(schema, level, path, found);
}

fn additional(schema: &Schema, level: Level, path: &str, found: &mut Vec<FieldError>) {
    let place = format!("{path}.additionalProperties");
    if schema.additional_properties.is_some() && level == Level::Root {
        found.push(FieldError::forbidden(&place, "must not be used at the root"));
    }
    if schema.additional_properties.is_some() && schema.embedded {
        found
            .push(FieldError::forbidden(&place, "must not be used if x-kubernetes-embedded-resource is set"));
    }
    if let Some(child) = schema.additional_schema() {
        invariants(child, Level::Field, &place, found);
    }
}

fn extensions(schema: &Schema, path: &str, found: &mut Vec<FieldError>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if schema.int_or_string && schema.preserve_unknown_fields {
        found.push(FieldError::invalid(format!("{path}.x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if schema.int_or_string && schema.embedded {
        found.push(FieldError::invalid(format!("{path}.x-kubernetes-embedded-resource"), true, detail));
    }
}

fn types(schema: &Schema, level: Level, path: &str, found: &mut Vec<FieldError>) {
    let (place, kind) = (format!("{path}.type"), schema.kind.as_str());
    if schema.embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        found.push(if kind.is_empty() {
            FieldError::required(&place, detail)
        } else {
            FieldError::invalid(&place, kind, detail)
        });
    } else if kind.is_empty() && !schema.int_or_string && !schema.preserve_unknown_fields {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.push(FieldError::required(&place, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.push(FieldError::invalid(&place, kind, "must be object at the root"));
    }
}

fn metadata(schema: &Schema, level: Level, path: &str, found: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || schema.embedded;
    for name in ["kind", "apiVersion"] {
        let child = schema.properties.get(name).filter(|child| is_resource && child.kind != "string");
        if let Some(child) = child {
            let place = format!("{}.type", key(path, name));
            found.push(FieldError::invalid(place, child.kind.as_str(), "must be string"));
        }
    }
    if let Some(child) = schema.properties.get("metadata") {
        let place = key(path, "metadata");
        if is_resource && child.kind != "object" {
            found.push(FieldError::invalid(format!("{place}.type"), child.kind.as_str(), "must be object"));
        }
        if level == Level::Root && !restricts_names_only(child) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            found.push(FieldError::forbidden(place, detail));
        }
    }
    if schema.embedded && !schema.preserve_unknown_fields && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        found.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

/// Metadata at the root may only restrict `name` and `generateName`.
fn restricts_names_only(schema: &Schema) -> bool {
    let plain = Schema { kind: String::new(), default: None, properties: <_>::default(), ..schema.clone() };
    schema.properties.keys().all(|name| name == "name" || name == "generateName") && is_blank(&plain)
}

/// Whether the schema is empty.
fn is_blank(schema: &Schema) -> bool {
    format!("{schema:?}") == format!("{:?}", Schema::default())
}

fn is_only_type(schema: &Schema, kind: &str) -> bool {
    schema.kind == kind && is_blank(&Schema { kind: String::new(), ..schema.clone() })
}

/// The only allowed use of types in `anyOf`.
fn is_int_or_string(any_of: &[Schema]) -> bool {
    matches!(any_of, [one, two] if is_only_type(one, "integer") && is_only_type(two, "string"))
}

fn is_wrapped_int_or_string(schema: &Schema) -> bool {
    schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of))
}

/// Where types are allowed in combinators.
#[derive(Clone, Copy, Default)]
struct AllowedTypes {
    any_of: bool,
    first_all_of: bool,
}

fn values(schema: &Schema, skip: AllowedTypes, path: &str, found: &mut Vec<FieldError>) {
    if !skip.any_of {
        for (index, child) in schema.any_of.iter().enumerate() {
            nested(child, false, &format!("{path}.anyOf[{index}]"), found);
        }
    }
    for (index, child) in schema.all_of.iter().enumerate() {
        nested(child, skip.first_all_of && index == 0, &format!("{path}.allOf[{index}]"), found);
    }
    for (index, child) in schema.one_of.iter().enumerate() {
        nested(child, false, &format!("{path}.oneOf[{index}]"), found);
    }
    if let Some(child) = &schema.not {
        nested(child, false, &format!("{path}.not"), found);
    }
    if let Some(pattern) = &schema.pattern
        && let Err(error) = &pattern.regex
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        found.push(FieldError::invalid(format!("{path}.pattern"), pattern.text.as_str(), detail));
    }
}

fn nested(schema: &Schema, skip_any_of: bool, path: &str, found: &mut Vec<FieldError>) {
    values(schema, AllowedTypes { any_of: skip_any_of, first_all_of: false }, path, found);
    if let Some(items) = schema.items.as_deref() {
        nested(items, false, &format!("{path}.items"), found);
    }
    for (name, child) in &schema.properties {
        nested(child, false, &key(path, name), found);
    }
    let (empty, no, undefined) = (
        "must be empty to be structural",
        "must be false to be structural",
        "must be undefined to be structural",
    );
    let additional = !matches!(schema.additional_properties, None | Some(AdditionalProperties::Any(false)));
    let checks = [
        (!schema.kind.is_empty(), "type", empty),
        (additional, "additionalProperties", undefined),
        (schema.default.is_some(), "default", undefined),
        (!schema.title.is_empty(), "title", empty),
        (!schema.description.is_empty(), "description", empty),
        (schema.nullable, "nullable", no),
        (schema.preserve_unknown_fields, "x-kubernetes-preserve-unknown-fields", no),
        (schema.embedded, "x-kubernetes-embedded-resource", no),
        (schema.int_or_string, "x-kubernetes-int-or-string", no),
        (!schema.list_keys.is_empty(), "x-kubernetes-list-map-keys", empty),
        (schema.list_type.is_some(), "x-kubernetes-list-type", undefined),
        (schema.map_type.is_some(), "x-kubernetes-map-type", undefined),
        (!schema.rules.is_empty(), "x-kubernetes-validations", empty),
    ];
    for (is_set, name, detail) in checks {
        if is_set {
            found.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
    if schema.properties.contains_key("metadata") {
        found.push(FieldError::forbidden(key(path, "metadata"), "must not be specified in a nested context"));
    }
}

/// Checks that every field used in combinators is declared outside of them.
struct CompletenessCheck<'a> {
    found: &'a mut Vec<FieldError>,
}

impl CompletenessCheck<'_> {
    fn values(&mut self, nested: &Schema, outer: &Schema, outer_path: &str, path: &str) {
        if let Some(child) = &nested.not {
            self.nested(child, Some(outer), outer_path, &format!("{path}.not"));
        }
        let lists = [("allOf", &nested.all_of), ("anyOf", &nested.any_of), ("oneOf", &nested.one_of)];
        for (name, list) in lists {
            for (index, child) in list.iter().enumerate() {
                self.nested(child, Some(outer), outer_path, &format!("{path}.{name}[{index}]"));
            }
        }
    }

    fn nested(&mut self, nested: &Schema, outer: Option<&Schema>, outer_path: &str, path: &str) {
        let Some(outer) = outer else {
            self.found.push(FieldError::required(outer_path, format!("because it is defined in {path}")));
            return;
        };
        self.values(nested, outer, outer_path, path);
        if let Some(items) = &nested.items {
            self.nested(
                items,
                outer.items.as_deref(),
                &format!("{outer_path}.items"),
                &format!("{path}.items"),
            );
        }
        for (name, child) in &nested.properties {
            self.nested(child, outer.properties.get(name), &key(outer_path, name), &key(path, name));
        }
    }
}
