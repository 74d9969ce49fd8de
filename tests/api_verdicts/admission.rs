//! Admission as in an API server: drops nulls, refuses unknown fields, applies defaults, checks schema, list types and CEL rules.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::cel::{Validator, apply_defaults, compile_schema};
use regex::Regex;
use serde_json::Value;

/// The schemas of the CRDs, by kind.
pub(super) struct Crds(BTreeMap<String, Value>);

impl Crds {
    pub(super) fn new() -> Self {
        let schema = |crd: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
            let version = crd.spec.versions.into_iter().next().unwrap();
            let mut schema = serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap();
            // What every object has, and no CRD says.
            for (name, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
                schema["properties"][name] =
                    serde_json::json!({ "type": kind, "x-kubernetes-preserve-unknown-fields": kind == "object" });
            }
            (crd.spec.names.kind, schema)
        };
        Self(capt_kinds::api::cluster_crds().into_iter().map(schema).collect())
    }

    /// The verdict on a creation, or on an update of `old`.
    pub(super) fn admit(&self, kind: &str, object: &Value, old: Option<&Value>) -> Result<(), Vec<String>> {
        let schema = &self.0[kind];
        let mut object = object.clone();
        drop_nulls(schema, &mut object);
        let mut problems = Vec::new();
        find_unknown_fields(schema, &object, "", &mut problems);
        let object = apply_defaults(schema, &object);
        let old = old.map(|old| apply_defaults(schema, old));
        validate_schema(schema, &object, "", &mut problems);
        if problems.is_empty()
            && let Err(errors) = Validator::new().validate(schema, &object, old.as_ref())
        {
            problems.extend(errors.iter().map(ToString::to_string));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// CEL rules that do not compile.
    pub(super) fn rules_that_fail_to_compile(&self) -> Vec<String> {
        let broken = |(kind, schema): (&String, &Value)| {
            compile_schema(schema)
                .compilation_errors()
                .iter()
                .map(|it| format!("{kind}: {it}"))
                .collect::<Vec<_>>()
        };
        self.0.iter().flat_map(broken).collect()
    }

    /// The messages of all CEL rules.
    pub(super) fn rule_messages(&self) -> BTreeSet<String> {
        fn collect(schema: &Value, found: &mut BTreeSet<String>) {
            match schema {
                Value::Object(fields) => {
                    for rule in
                        fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
                    {
                        found.insert(rule["message"].as_str().unwrap().to_owned());
                    }
                    fields.values().for_each(|value| collect(value, found));
                }
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                _ => {}
            }
        }
        let mut found = BTreeSet::new();
        self.0.values().for_each(|schema| collect(schema, &mut found));
        found
    }
}

fn preserves_unknown_fields(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// The schema of a field or of a map's value.
fn property_schema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))
}

fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) if !preserves_unknown_fields(schema) => {
            fields.retain(|name, value| !(value.is_null() && property_schema(schema, name).is_some()));
            for (name, value) in fields {
                if let Some(schema) = property_schema(schema, name) {
                    drop_nulls(schema, value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(&schema["items"], item)),
        _ => {}
    }
}

fn find_unknown_fields(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !preserves_unknown_fields(schema) => {
            for (name, value) in fields {
                match property_schema(schema, name) {
                    Some(schema) => find_unknown_fields(schema, value, &format!("{path}.{name}"), problems),
                    None => problems.push(format!("{path}.{name}: unknown field")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_unknown_fields(&schema["items"], item, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn validate_schema(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    let mut check = |good: bool, rule: &str| {
        if !good {
            problems.push(format!("{path}: {rule}"));
        }
    };
    check(schema["type"].as_str().is_none_or(|kind| has_type(value, kind)), "type");
    check(schema["enum"].as_array().is_none_or(|known| known.contains(value)), "enum");
    let at_least = |rule: &str, found: f64| schema[rule].as_f64().is_none_or(|least| found >= least);
    let at_most = |rule: &str, found: f64| schema[rule].as_f64().is_none_or(|most| found <= most);
    let size = |count: usize| f64::from(u32::try_from(count).unwrap());
    match value {
        Value::String(text) => {
            let length = size(text.chars().count());
            check(at_least("minLength", length) && at_most("maxLength", length), "length");
            check(
                schema["pattern"].as_str().is_none_or(|it| Regex::new(it).unwrap().is_match(text)),
                "pattern",
            );
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            check(at_least("minimum", number) && at_most("maximum", number), "range");
        }
        Value::Array(items) => {
            check(at_least("minItems", size(items.len())) && at_most("maxItems", size(items.len())), "items");
            check(!has_duplicates(schema, items), "twice in the list");
            for (index, item) in items.iter().enumerate() {
                validate_schema(&schema["items"], item, &format!("{path}[{index}]"), problems);
            }
        }
        Value::Object(fields) => {
            check(at_most("maxProperties", size(fields.len())), "properties");
            for name in schema["required"].as_array().into_iter().flatten() {
                check(fields.contains_key(name.as_str().unwrap()), "required");
            }
            if !preserves_unknown_fields(schema) {
                for (name, value) in fields {
                    if let Some(schema) = property_schema(schema, name) {
                        validate_schema(schema, value, &format!("{path}.{name}"), problems);
                    }
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no such type: {other}"),
    }
}

fn has_duplicates(schema: &Value, items: &[Value]) -> bool {
    let keys = |item: &Value| -> Value {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => {
                let names = schema["x-kubernetes-list-map-keys"].as_array().unwrap();
                names.iter().map(|name| item[name.as_str().unwrap()].clone()).collect()
            }
            _ => item.clone(),
        }
    };
    matches!(schema["x-kubernetes-list-type"].as_str(), Some("map" | "set"))
        && items
            .iter()
            .enumerate()
            .any(|(index, item)| items[..index].iter().any(|it| keys(it) == keys(item)))
}
