//! Schemas of custom resources: the author's schema plus the standard fields.

use serde_json::{Map, Value, json};

use super::{descriptions::Descriptions, schemas::Dialect};
use crate::registry::Resource;

/// Type whose descriptions of `apiVersion`, `kind` and `metadata` are used.
pub const DESCRIPTIONS_FROM: &str = "io.k8s.api.core.v1.Namespace";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// Beyond the depth that parsed JSON can have.
const MAX_DEPTH: usize = 200;

/// `shop.example.com`, `v1`, `Widget` → `com.example.shop.v1.Widget`.
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// Schema of an object.
pub fn object_schema(resource: &Resource, descriptions: &Descriptions, dialect: Dialect) -> Value {
    let mut schema = resource.strategy.schema().cloned().unwrap_or_else(|| json!({"type": "object"}));
    if dialect == Dialect::V2 {
        simplify_for_v2(&mut schema, MAX_DEPTH);
    }
    add_embedded_meta(&mut schema, descriptions, dialect, MAX_DEPTH);
    if let Value::Object(schema) = &mut schema {
        if schema.get("x-kubernetes-preserve-unknown-fields") != Some(&true.into()) || dialect == Dialect::V3
        {
            add_meta(schema, descriptions, dialect, OBJECT_META);
        }
        schema.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([{"group": resource.id.group, "kind": resource.kind, "version": resource.id.version}]),
        );
    }
    schema
}

/// Schema of a list.
pub fn list_schema(resource: &Resource, descriptions: &Descriptions, dialect: Dialect) -> Value {
    let item = dialect.reference(&model_name(&resource.id.group, &resource.id.version, &resource.kind));
    let mut schema = Map::new();
    schema.insert(
        "description".to_owned(),
        format!("{} is a list of {}", resource.list_kind, resource.kind).into(),
    );
    schema.insert("type".to_owned(), "object".into());
    schema.insert("required".to_owned(), json!(["items"]));
    schema.insert("properties".to_owned(), json!({"items": {"type": "array", "items": {"$ref": item}}}));
    add_meta(&mut schema, descriptions, dialect, LIST_META);
    schema.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([{"group": resource.id.group, "kind": resource.list_kind, "version": resource.id.version}]),
    );
    schema.into()
}

fn add_meta(schema: &mut Map<String, Value>, descriptions: &Descriptions, dialect: Dialect, meta: &str) {
    let word = |field: &str| descriptions.field_description(DESCRIPTIONS_FROM, field);
    let reference = json!(dialect.reference(meta));
    let metadata = match dialect {
        Dialect::V2 => json!({"description": word("metadata"), "$ref": reference}),
        Dialect::V3 => json!({"description": word("metadata"), "allOf": [{"$ref": reference}]}),
    };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for field in ["apiVersion", "kind"] {
            properties.insert(field.to_owned(), json!({"description": word(field), "type": "string"}));
        }
        properties.insert("metadata".to_owned(), metadata);
        properties.sort_keys();
    }
}

/// Embedded resources have a type and metadata too.
fn add_embedded_meta(schema: &mut Value, descriptions: &Descriptions, dialect: Dialect, depth: usize) {
    for_each_child(schema, depth, &mut |child, depth| {
        add_embedded_meta(child, descriptions, dialect, depth);
        let Value::Object(child) = child else { return };
        let is_embedded = child.get("x-kubernetes-embedded-resource") == Some(&true.into());
        if is_embedded && (dialect == Dialect::V3 || child.contains_key("type")) {
            add_meta(child, descriptions, dialect, OBJECT_META);
            let mut required = vec![json!("kind"), json!("apiVersion")];
            if let Some(Value::Array(more)) = child.get("required") {
                required.extend(more.iter().filter(|one| *one != "kind" && *one != "apiVersion").cloned());
            }
            child.insert("required".to_owned(), required.into());
        }
    });
}

/// Drops what version 2 cannot express.
fn simplify_for_v2(schema: &mut Value, depth: usize) {
    for_each_child(schema, depth, &mut simplify_for_v2);
    let Value::Object(schema) = schema else { return };
    let is = |key: &str| schema.get(key) == Some(&true.into());
    let (nullable, open, either) =
        (is("nullable"), is("x-kubernetes-preserve-unknown-fields"), is("x-kubernetes-int-or-string"));
    schema.retain(|key, _| {
        let never =
            matches!(key.as_str(), "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" | "example");
        let of_type =
            matches!(key.as_str(), "type" | "items" | "properties" | "required" | "additionalProperties");
        !never && !(of_type && (nullable || open)) && !(either && key == "type")
    });
}

fn for_each_child(schema: &mut Value, depth: usize, work: &mut dyn FnMut(&mut Value, usize)) {
    let (Value::Object(schema), Some(depth)) = (schema, depth.checked_sub(1)) else { return };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|child| work(child, depth));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child @ Value::Object(_)) = schema.get_mut(key) {
            work(child, depth);
        }
    }
}
