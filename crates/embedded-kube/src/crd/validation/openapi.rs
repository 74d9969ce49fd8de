//! Validates an `openAPIV3Schema`, node by node.

use serde_json::{Map, Value};

use crate::{
    object::str_at,
    schema::{CompiledSchema, Schema, display_value, field_path},
    status_error::FieldError,
};

const SCHEMA_TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const RULE_REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Validates the schema of a version at `path`.
pub fn validate_schema(version: &Value, has_status: bool, path: &str, errors: &mut Vec<FieldError>) {
    let Some(source) = super::schema_of(version) else { return };
    let before = errors.len();
    validate_root(source, has_status, path, errors);
    let schema = Schema::parse(source);
    let unsupported = unsupported_keyword(source);
    let mut values = Vec::new();
    if unsupported.is_none() {
        values = CompiledSchema::schema_errors(&schema, path);
    }
    let is_structural = unsupported.is_none() && values.is_empty();
    errors.extend(values);
    let mut found = SchemaErrors::default();
    validate_node(source, path, &SchemaContext { is_root: true, ..SchemaContext::default() }, &mut found);
    let is_clean = found.schema.is_empty();
    errors.extend(found.schema);
    if is_structural && is_clean {
        errors.extend(CompiledSchema::rule_errors(&schema, path));
    }
    if errors.len() == before
        && let Some(why) = unsupported
    {
        errors.push(FieldError::invalid(path, "", why));
    }
}

/// With a status subresource, the root may only use keywords that do not affect the status.
fn validate_root(source: &Value, has_status: bool, path: &str, errors: &mut Vec<FieldError>) {
    const ALLOWED: [(&str, &str); 22] = [
        ("Description", "description"),
        ("Type", "type"),
        ("Format", "format"),
        ("Title", "title"),
        ("Maximum", "maximum"),
        ("ExclusiveMaximum", "exclusiveMaximum"),
        ("Minimum", "minimum"),
        ("ExclusiveMinimum", "exclusiveMinimum"),
        ("MaxLength", "maxLength"),
        ("MinLength", "minLength"),
        ("Pattern", "pattern"),
        ("MaxItems", "maxItems"),
        ("MinItems", "minItems"),
        ("UniqueItems", "uniqueItems"),
        ("MultipleOf", "multipleOf"),
        ("Required", "required"),
        ("Items", "items"),
        ("Properties", "properties"),
        ("ExternalDocs", "externalDocs"),
        ("Example", "example"),
        ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
        ("XValidations", "x-kubernetes-validations"),
    ];
    let kind = str_at(source, &["type"]);
    if has_status {
        if !kind.is_empty() && kind != "object" {
            let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
            errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
        } else if let Some(map) = source.as_object() {
            let is_set = |value: &Value| {
                !(value.is_null()
                    || *value == Value::Bool(false)
                    || value.as_array().is_some_and(Vec::is_empty))
            };
            let odd =
                map.iter().any(|(key, value)| is_set(value) && !ALLOWED.iter().any(|(_, name)| name == key));
            if odd {
                let names: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
                let detail = format!(
                    "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                    names.join(" ")
                );
                errors.push(FieldError::invalid(path, display_value(source), detail));
            }
        }
    }
    if super::bool_field(source, "nullable") {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
}

/// Keywords that structural schemas do not support.
fn unsupported_keyword(source: &Value) -> Option<String> {
    let map = source.as_object()?;
    let is_set = |key: &str| map.get(key).is_some_and(|value| !is_empty(value));
    for (key, name) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ] {
        if is_set(key) {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    if map.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    children(map).into_iter().find_map(|(_, child)| unsupported_keyword(child))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Child schemas with their relative paths.
fn children(map: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for key in ["items", "not", "additionalProperties"] {
        if let Some(child @ Value::Object(_)) = map.get(key) {
            found.push((format!(".{key}"), child));
        }
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
        found.extend(list.enumerate().map(|(index, child)| (format!(".{key}[{index}]"), child)));
    }
    for key in ["properties", "definitions"] {
        let named = map.get(key).and_then(Value::as_object).into_iter().flatten();
        found.extend(named.map(|(name, child)| (format!(".{key}[{name}]"), child)));
    }
    found
}

#[derive(Debug, Default)]
struct SchemaErrors {
    schema: Vec<FieldError>,
}

/// Position of a schema in an object.
#[derive(Debug, Clone, Default)]
struct SchemaContext {
    is_root: bool,
    /// Inside `apiVersion`, `kind` or `metadata`.
    is_meta: bool,
    /// Why a default is not allowed here.
    no_default: Option<String>,
}

fn validate_node(source: &Value, path: &str, context: &SchemaContext, found: &mut SchemaErrors) {
    let Some(map) = source.as_object() else { return };
    validate_keywords(map, source, path, context, found);
    validate_structure(map, path, found);
    for (rest, child) in children(map) {
        let place = format!("{path}{rest}");
        validate_node(child, &place, &child_context(&rest, source, context), found);
    }
    validate_extensions(map, source, path, found);
    validate_lists(map, source, path, found);
    validate_rules(source, path, found);
}

fn child_context(rest: &str, source: &Value, context: &SchemaContext) -> SchemaContext {
    let mut next = SchemaContext { is_root: false, ..context.clone() };
    let meta =
        ["metadata", "kind", "apiVersion"].into_iter().find(|name| rest == format!(".properties[{name}]"));
    let is_resource = context.is_root || super::bool_field(source, "x-kubernetes-embedded-resource");
    if let Some(name) = meta.filter(|_| is_resource) {
        next.is_meta = true;
        if context.is_root {
            next.no_default = Some(format!("in top-level {name}"));
        }
    }
    if rest == ".additionalProperties" && context.is_meta {
        next.no_default = Some("inside additionalProperties applying to object metadata".to_owned());
    }
    next
}

fn validate_keywords(
    map: &Map<String, Value>,
    source: &Value,
    path: &str,
    context: &SchemaContext,
    found: &mut SchemaErrors,
) {
    let errors = &mut found.schema;
    let kind = str_at(source, &["type"]);
    if !kind.is_empty() && !SCHEMA_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(format!("{path}.type"), kind, &SCHEMA_TYPES));
    }
    if let Some(reason) =
        context.no_default.as_ref().filter(|_| map.get("default").is_some_and(|it| !it.is_null()))
    {
        errors.push(FieldError::forbidden(format!("{path}.default"), format!("must not be set {reason}")));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if map.get(key).is_some_and(|value| !is_empty(value)) {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(format!("{path}.type"), detail));
    }
    if map.get("items").and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), detail));
    }
    if context.is_meta && super::bool_field(source, "x-kubernetes-embedded-resource") {
        let detail = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(format!("{path}.x-kubernetes-embedded-resource"), detail));
    }
}

fn validate_structure(map: &Map<String, Value>, path: &str, found: &mut SchemaErrors) {
    if map.get("uniqueItems") == Some(&Value::Bool(true)) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.schema.push(FieldError::forbidden(format!("{path}.uniqueItems"), detail));
    }
    let has_properties = map.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
    let excludes = matches!(map.get("additionalProperties"), Some(Value::Bool(false) | Value::Object(_)));
    if has_properties && excludes {
        let detail = "additionalProperties and properties are mutual exclusive";
        found.schema.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
}

fn validate_extensions(map: &Map<String, Value>, source: &Value, path: &str, found: &mut SchemaErrors) {
    let errors = &mut found.schema;
    let kind = str_at(source, &["type"]);
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    let mut must_be = |wanted: &str, key: &str| {
        let (field, detail) = (format!("{path}.type"), format!("must be {wanted} if {key} is specified"));
        if kind.is_empty() {
            errors.push(FieldError::required(field, detail));
        } else if kind != wanted {
            errors.push(FieldError::invalid(field, kind, detail));
        }
    };
    let map_type = map.get("x-kubernetes-map-type").and_then(Value::as_str);
    let list_type = map.get("x-kubernetes-list-type").and_then(Value::as_str);
    if map_type.is_some() {
        must_be("object", "x-kubernetes-map-type");
    }
    if let Some(other) = map_type.filter(|it| !matches!(*it, "atomic" | "granular")) {
        let known = ["atomic", "granular"];
        found.schema.push(FieldError::not_supported(format!("{path}.x-kubernetes-map-type"), other, &known));
    }
    if list_type.is_some() && kind != "array" {
        let (field, detail) =
            (format!("{path}.type"), "must be array if x-kubernetes-list-type is specified");
        found.schema.push(if kind.is_empty() {
            FieldError::required(field, detail)
        } else {
            FieldError::invalid(field, kind, detail)
        });
    } else if list_type == Some("set") {
        validate_set_items(map, path, found);
    }
    if let Some(other) = list_type.filter(|it| !matches!(*it, "atomic" | "set" | "map")) {
        let known = ["atomic", "set", "map"];
        found.schema.push(FieldError::not_supported(format!("{path}.x-kubernetes-list-type"), other, &known));
    }
}

/// Items of a set must be atomic.
fn validate_set_items(map: &Map<String, Value>, path: &str, found: &mut SchemaErrors) {
    let Some(items) = map.get("items").filter(|it| it.is_object()) else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let given = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    let map_type = str_at(items, &["x-kubernetes-map-type"]);
    match str_at(items, &["type"]) {
        "array" if given.is_string() && given != "atomic" => {
            let field = format!("{path}.items.x-kubernetes-list-type");
            found.schema.push(FieldError::invalid(field, given, detail));
        }
        "object" if map_type != "atomic" => {
            let field = format!("{path}.items.x-kubernetes-map-type");
            found.schema.push(FieldError::invalid(field, given, detail));
        }
        _ => {}
    }
}

fn validate_lists(map: &Map<String, Value>, source: &Value, path: &str, found: &mut SchemaErrors) {
    let errors = &mut found.schema;
    let list_type = map.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = super::string_list(source, &["x-kubernetes-list-map-keys"]);
    let type_field = format!("{path}.x-kubernetes-list-type");
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        None if !keys.is_empty() => errors.push(FieldError::required(type_field, detail)),
        Some(other) if !keys.is_empty() && other != "map" => {
            errors.push(FieldError::invalid(type_field, other, detail));
        }
        _ => {}
    }
    if list_type == Some("map") {
        validate_map_list(map, &keys, path, errors);
    }
    let items = map.get("items").filter(|it| it.is_object());
    if let (Some(kind @ ("set" | "map")), Some(items)) = (list_type, items) {
        if super::bool_field(items, "nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
        }
        if kind == "map" {
            validate_key_fields(items, &keys, path, errors);
        }
    }
}

fn validate_map_list(map: &Map<String, Value>, keys: &[String], path: &str, errors: &mut Vec<FieldError>) {
    let keys_field = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&keys_field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = map.get("items") else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    };
    let kind = str_at(items, &["type"]);
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), kind, detail));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        match items.get("properties").and_then(|properties| properties.get(key)) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_field, keys.to_vec(), detail));
            }
            Some(child) if matches!(str_at(child, &["type"]), "array" | "object") => {
                let field = format!("{path}.items.properties[{key}].type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(field, kind, detail));
            }
            Some(_) => {}
        }
        if keys.iter().take(index).any(|other| other == key) {
            errors.push(FieldError::invalid(
                &keys_field,
                keys.to_vec(),
                "must not contain duplicate entries",
            ));
        }
    }
}

fn validate_key_fields(items: &Value, keys: &[String], path: &str, errors: &mut Vec<FieldError>) {
    let required = super::string_list(items, &["required"]);
    for key in keys {
        let Some(child) = items.get("properties").and_then(|properties| properties.get(key)) else {
            continue;
        };
        let place = format!("{path}.items.properties[{key}]");
        if !required.contains(key) && child.get("default").is_none_or(Value::is_null) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(format!("{place}.default"), detail));
        }
        if super::bool_field(child, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{place}.nullable"), detail));
        }
    }
}

fn validate_rules(source: &Value, path: &str, found: &mut SchemaErrors) {
    let errors = &mut found.schema;
    let list = source.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in list.into_iter().flatten().enumerate() {
        let at = |key: &str| format!("{path}.x-kubernetes-validations[{index}].{key}");
        let has_break = |text: &str| text.contains(['\n', '\r']);
        let (message, expression) = (str_at(rule, &["message"]), str_at(rule, &["messageExpression"]));
        let expression_of_rule = str_at(rule, &["rule"]).trim();
        if expression_of_rule.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(at("message"), message, "must be non-empty if specified"));
        } else if has_break(message.trim()) {
            errors.push(FieldError::invalid(at("message"), message, "must not contain line breaks"));
        } else if has_break(expression_of_rule) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), detail));
        }
        let reason = str_at(rule, &["reason"]);
        if !reason.is_empty() && !RULE_REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(at("reason"), reason, &RULE_REASONS));
        }
        validate_field_path(source, str_at(rule, &["fieldPath"]), &at("fieldPath"), errors);
    }
}

fn validate_field_path(source: &Value, given: &str, field: &str, errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        return;
    }
    if given.trim().is_empty() {
        errors.push(FieldError::invalid(field, given, "must be non-empty if specified"));
    }
    if given.contains(['\n', '\r']) {
        errors.push(FieldError::invalid(field, given, "must not contain line breaks"));
    }
    if field_path::resolve_field_path(given, &Schema::parse(source), true).is_err() {
        errors.push(FieldError::invalid(field, given, "must be a valid path"));
    }
}
