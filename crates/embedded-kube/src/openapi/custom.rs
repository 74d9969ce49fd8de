//! Custom resources as schemas: what their author wrote, and what every object has.

use serde_json::{Map, Value, json};

use super::{describe::Descriptions, schemas::Dialect};
use crate::registry::Resource;

/// Words about `apiVersion`, `kind` and `metadata` are those of this type.
pub const WORDS: &str = "io.k8s.api.core.v1.Namespace";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// Schemas come from JSON of bounded depth; this is beyond it.
const DEEPEST: usize = 200;

/// `shop.example.com`, `v1`, `Widget` → `com.example.shop.v1.Widget`.
pub fn model(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// The schema of one object.
pub fn object(resource: &Resource, descriptions: &Descriptions, dialect: Dialect) -> Value {
    let mut schema = resource.rules.schema().cloned().unwrap_or_else(|| json!({"type": "object"}));
    if dialect == Dialect::V2 {
        simplify(&mut schema, DEEPEST);
    }
    embed(&mut schema, descriptions, dialect, DEEPEST);
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

/// The schema of a list.
pub fn list(resource: &Resource, descriptions: &Descriptions, dialect: Dialect) -> Value {
    let item = dialect.reference(&model(&resource.id.group, &resource.id.version, &resource.kind));
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
    let word = |field: &str| descriptions.of_field(WORDS, field);
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

/// Objects within objects have a type and metadata too.
fn embed(schema: &mut Value, descriptions: &Descriptions, dialect: Dialect, depth: usize) {
    each_child(schema, depth, &mut |child, depth| {
        embed(child, descriptions, dialect, depth);
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

/// What version 2 cannot say is left unsaid.
fn simplify(schema: &mut Value, depth: usize) {
    each_child(schema, depth, &mut simplify);
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

fn each_child(schema: &mut Value, depth: usize, work: &mut dyn FnMut(&mut Value, usize)) {
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
