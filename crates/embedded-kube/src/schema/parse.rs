//! Parses an `openAPIV3Schema` into the model that the rest of `schema` uses.
//!
//! Parsing never fails: malformed parts are skipped here and reported by the CRD validation.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// Deeper schemas are truncated; JSON is not parsed deeper.
const MAX_DEPTH: usize = 128;

/// Patterns whose compiled size exceeds this are rejected like malformed ones.
const MAX_PATTERN_SIZE: usize = 4 << 20;

/// One node of a schema.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent keyword")]
pub struct Schema {
    /// `type`; empty if not given.
    pub kind: String,
    pub format: String,
    pub title: String,
    pub description: String,
    pub nullable: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Self>,
    pub additional_properties: Option<AdditionalProperties>,
    pub items: Option<Box<Self>>,
    pub required: Vec<String>,
    pub enum_values: Vec<Value>,
    pub bounds: Bounds,
    pub pattern: Option<Pattern>,
    pub all_of: Vec<Self>,
    pub any_of: Vec<Self>,
    pub one_of: Vec<Self>,
    pub not: Option<Box<Self>>,
    pub preserve_unknown_fields: bool,
    pub int_or_string: bool,
    pub embedded: bool,
    pub list_type: Option<String>,
    pub list_keys: Vec<String>,
    pub map_type: Option<String>,
    pub rules: Vec<ValidationRule>,
}

/// `additionalProperties`.
#[derive(Debug, Clone)]
pub enum AdditionalProperties {
    /// `true` or `false`.
    Any(bool),
    /// Schema of all values.
    Schema(Box<Schema>),
}

/// Bounds of a value.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
}

/// A compiled `pattern`.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub text: String,
    /// The error text, if it is not a valid regular expression.
    pub regex: Result<Regex, String>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default)]
pub struct ValidationRule {
    /// The expression.
    pub text: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl Schema {
    /// Parses a schema.
    pub fn parse(source: &Value) -> Self {
        Self::read(source, MAX_DEPTH)
    }

    fn read(source: &Value, depth: usize) -> Self {
        if depth == 0 {
            return Self::default();
        }
        let schema =
            |key: &str| source.get(key).filter(|it| it.is_object()).map(|it| Self::read(it, depth - 1));
        let schemas = |key: &str| list(source, key).map(|it| Self::read(it, depth - 1)).collect();
        Self {
            kind: text(source, "type"),
            format: text(source, "format"),
            title: text(source, "title"),
            description: text(source, "description"),
            nullable: flag(source, "nullable"),
            default: source.get("default").filter(|it| !it.is_null()).cloned(),
            properties: properties(source, depth),
            additional_properties: match source.get("additionalProperties") {
                Some(Value::Bool(any)) => Some(AdditionalProperties::Any(*any)),
                Some(other @ Value::Object(_)) => {
                    Some(AdditionalProperties::Schema(Box::new(Self::read(other, depth - 1))))
                }
                _ => None,
            },
            items: schema("items").map(Box::new),
            required: texts(source, "required"),
            enum_values: list(source, "enum").cloned().collect(),
            bounds: Bounds::read(source),
            pattern: Some(text(source, "pattern")).filter(|it| !it.is_empty()).map(Pattern::new),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: schema("not").map(Box::new),
            preserve_unknown_fields: flag(source, "x-kubernetes-preserve-unknown-fields"),
            int_or_string: flag(source, "x-kubernetes-int-or-string"),
            embedded: flag(source, "x-kubernetes-embedded-resource"),
            list_type: source.get("x-kubernetes-list-type").and_then(Value::as_str).map(str::to_owned),
            list_keys: texts(source, "x-kubernetes-list-map-keys"),
            map_type: source.get("x-kubernetes-map-type").and_then(Value::as_str).map(str::to_owned),
            rules: list(source, "x-kubernetes-validations").map(ValidationRule::read).collect(),
        }
    }

    /// Schema of undeclared keys.
    pub fn additional_schema(&self) -> Option<&Self> {
        match &self.additional_properties {
            Some(AdditionalProperties::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Schema of a key.
    pub fn child(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or_else(|| self.additional_schema())
    }

    /// Whether items are identified by keys.
    pub fn is_list_map(&self) -> bool {
        self.kind == "array" && self.list_type.as_deref() == Some("map") && !self.list_keys.is_empty()
    }

    /// Types for value validation.
    pub fn types(&self) -> &[&'static str] {
        if self.int_or_string {
            return &["integer", "string"];
        }
        match self.kind.as_str() {
            "object" => &["object"],
            "array" => &["array"],
            "string" => &["string"],
            "integer" => &["integer"],
            "number" => &["number"],
            "boolean" => &["boolean"],
            _ => &[],
        }
    }
}

impl Bounds {
    fn read(source: &Value) -> Self {
        let number = |key: &str| source.get(key).and_then(Value::as_f64);
        let count = |key: &str| source.get(key).and_then(Value::as_i64);
        Self {
            maximum: number("maximum"),
            exclusive_maximum: flag(source, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag(source, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
        }
    }
}

impl Pattern {
    fn new(text: String) -> Self {
        let regex = regex::RegexBuilder::new(&text)
            .size_limit(MAX_PATTERN_SIZE)
            .build()
            .map_err(|error| go_error(&error, &text));
        Self { text, regex }
    }
}

/// The most common pattern errors with Go's texts.
fn go_error(error: &regex::Error, pattern: &str) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let what = match last {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => {
            let start = pattern.rfind('[').and_then(|at| pattern.get(at..)).unwrap_or(pattern);
            format!("missing closing ]: `{start}`")
        }
        "repetition operator missing expression" => {
            let start = pattern.find(['*', '+', '?']).and_then(|at| pattern.get(at..=at)).unwrap_or(pattern);
            format!("missing argument to repetition operator: `{start}`")
        }
        _ if last.starts_with("look-around") => {
            let start = pattern.find("(?").and_then(|at| pattern.get(at..at + 3)).unwrap_or("(?");
            format!("invalid or unsupported Perl syntax: `{start}`")
        }
        other => format!("{other}: `{pattern}`"),
    };
    format!("error parsing regexp: {what}")
}

impl ValidationRule {
    fn read(source: &Value) -> Self {
        Self {
            text: text(source, "rule"),
            message: text(source, "message"),
            message_expression: text(source, "messageExpression"),
            reason: source.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: text(source, "fieldPath"),
            optional_old_self: source.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }
}

fn properties(source: &Value, depth: usize) -> BTreeMap<String, Schema> {
    let map = source.get("properties").and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.clone(), Schema::read(value, depth - 1))).collect()
}

fn list<'a>(source: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    source.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn texts(source: &Value, key: &str) -> Vec<String> {
    list(source, key).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text(source: &Value, key: &str) -> String {
    source.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(source: &Value, key: &str) -> bool {
    source.get(key).and_then(Value::as_bool).unwrap_or_default()
}
