//! Schemas of built-in types, in the dialects of both versions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use crate::{
    shape::{ListKind, PatchStrategy},
    types::{self, CustomJson, GoField, GoStruct, GoType},
};

/// Dialect of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Swagger 2.0.
    V2,
    /// `OpenAPI` 3.0.
    V3,
}

impl Dialect {
    /// A reference to a schema.
    pub fn reference(self, model: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{model}"),
            Self::V3 => format!("#/components/schemas/{model}"),
        }
    }
}

/// Model of a patch body, which is not in the type table.
pub const PATCH_MODEL: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// Schemas of the given types and of all types they reference, without the group-version-kind extension.
pub fn transitive_schemas<'a>(
    roots: impl IntoIterator<Item = &'a str>,
    descriptions: &Descriptions,
    dialect: Dialect,
) -> BTreeMap<String, Value> {
    let mut wanted: Vec<String> = roots.into_iter().map(str::to_owned).collect();
    let mut done = BTreeMap::new();
    let mut seen: BTreeSet<String> = wanted.iter().cloned().collect();
    while let Some(model) = wanted.pop() {
        let Some(go) = types::shape_by_model(&model).as_ref().and_then(types::go_struct) else {
            done.extend(custom_json_schema(&model, descriptions, dialect).map(|schema| (model, schema)));
            continue;
        };
        for field in &go.fields {
            if let Some(model) = referenced_model(&field.kind)
                && seen.insert(model.to_owned())
            {
                wanted.push(model.to_owned());
            }
        }
        done.insert(model, struct_schema(go, descriptions, dialect));
    }
    done
}

fn referenced_model(kind: &GoType) -> Option<&'static str> {
    match kind {
        GoType::Struct(index) => types::go_struct_at(*index).map(|go| go.model.as_str()),
        GoType::CustomJson(own) => Some(own.model()),
        GoType::List { items: inner, .. } | GoType::Map { values: inner, .. } | GoType::Pointer(inner) => {
            referenced_model(inner)
        }
        _ => None,
    }
}

fn struct_schema(go: &GoStruct, descriptions: &Descriptions, dialect: Dialect) -> Value {
    let required: Vec<&str> =
        go.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut fields: Vec<&GoField> = go.fields.iter().collect();
    fields.sort_by_key(|field| field.name);
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|field| {
            let description = descriptions.field_description(&go.model, field.name);
            (field.name.to_owned(), property_schema(field, description, dialect))
        })
        .collect();
    let mut schema = Map::new();
    describe(&mut schema, descriptions.type_description(&go.model));
    schema.insert("type".to_owned(), "object".into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    if !properties.is_empty() {
        schema.insert("properties".to_owned(), properties.into());
    }
    if go.atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    schema.into()
}

/// Types with their own JSON encoding.
fn custom_json_schema(model: &str, descriptions: &Descriptions, dialect: Dialect) -> Option<Value> {
    let meta = |name: &str| model.strip_prefix("io.k8s.apimachinery.pkg.apis.meta.v1.") == Some(name);
    let v3 = dialect == Dialect::V3;
    let body = if meta("Time") || meta("MicroTime") {
        json!({"type": "string", "format": "date-time"})
    } else if meta("Duration") {
        json!({"type": "string"})
    } else if meta("FieldsV1") || meta("Patch") || model == CustomJson::Raw.model() {
        json!({"type": "object"})
    } else if model == CustomJson::IntOrString.model() {
        if v3 {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        } else {
            json!({"type": "string", "format": "int-or-string"})
        }
    } else if model == CustomJson::Quantity.model() {
        if v3 {
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
        } else {
            json!({"type": "string"})
        }
    } else if model.starts_with("io.k8s.apiextensions-apiserver.") {
        json!({})
    } else {
        return None;
    };
    let mut schema = Map::new();
    describe(&mut schema, descriptions.type_description(model));
    if let Value::Object(body) = body {
        schema.extend(body);
    }
    Some(schema.into())
}

fn describe(schema: &mut Map<String, Value>, description: &str) {
    if !description.is_empty() {
        schema.insert("description".to_owned(), description.into());
    }
}

fn property_schema(field: &GoField, description: &str, dialect: Dialect) -> Value {
    let mut schema = Map::new();
    describe(&mut schema, description);
    let default = field.default.as_ref().filter(|_| dialect == Dialect::V3);
    write_type(&mut schema, &field.kind, default, dialect);
    write_patch(&mut schema, &field.patch);
    schema.into()
}

/// A list item or map value: types that are always present have their zero value as default.
fn element_schema(kind: &GoType, dialect: Dialect) -> Value {
    let default = match kind {
        _ if dialect == Dialect::V2 => None,
        GoType::String(..) => Some(json!("")),
        GoType::Int32 | GoType::Int64 | GoType::Float => Some(json!(0)),
        GoType::Bool => Some(json!(false)),
        GoType::Struct(_) => Some(json!({})),
        _ => None,
    };
    let mut schema = Map::new();
    write_type(&mut schema, kind, default.as_ref(), dialect);
    schema.into()
}

fn write_type(schema: &mut Map<String, Value>, kind: &GoType, default: Option<&Value>, dialect: Dialect) {
    let mut put = |key: &str, value: Value| {
        schema.insert(key.to_owned(), value);
    };
    let plain = |word: &str| (word.to_owned(), "");
    let (word, format) = match kind {
        GoType::Pointer(inner) => return write_type(schema, inner, default, dialect),
        GoType::Struct(_) | GoType::CustomJson(_) => return write_reference(schema, kind, default, dialect),
        GoType::String(_, values) => {
            put("type", "string".into());
            if !values.is_empty() {
                put("enum", values.iter().copied().collect());
            }
            return write_default(schema, default);
        }
        GoType::List { items, kind, explicit, .. } => {
            put("type", "array".into());
            put("items", element_schema(items, dialect));
            if let ListKind::Map(keys) = kind {
                put("x-kubernetes-list-map-keys", keys.clone().into());
            }
            if *explicit {
                put("x-kubernetes-list-type", list_type_name(kind).into());
            }
            return;
        }
        GoType::Map { values, atomic } => {
            put("type", "object".into());
            put("additionalProperties", element_schema(values, dialect));
            if *atomic {
                put("x-kubernetes-map-type", "atomic".into());
            }
            return;
        }
        GoType::Bool => plain("boolean"),
        GoType::Int32 => ("integer".to_owned(), "int32"),
        GoType::Int64 => ("integer".to_owned(), "int64"),
        GoType::Float => ("number".to_owned(), "double"),
        GoType::Bytes => ("string".to_owned(), "byte"),
    };
    put("type", word.into());
    if !format.is_empty() {
        put("format", format.into());
    }
    write_default(schema, default);
}

fn list_type_name(kind: &ListKind) -> &'static str {
    match kind {
        ListKind::Atomic => "atomic",
        ListKind::Set => "set",
        ListKind::Map(_) => "map",
    }
}

fn write_default(schema: &mut Map<String, Value>, default: Option<&Value>) {
    if let Some(default) = default {
        schema.insert("default".to_owned(), default.clone());
    }
}

/// Version 3 allows nothing beside a `$ref`, so it is wrapped if there is more.
fn write_reference(
    schema: &mut Map<String, Value>,
    kind: &GoType,
    default: Option<&Value>,
    dialect: Dialect,
) {
    let reference = dialect.reference(referenced_model(kind).unwrap_or_default());
    write_default(schema, default);
    if dialect == Dialect::V2 || schema.is_empty() {
        schema.insert("$ref".to_owned(), reference.into());
    } else {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
}

fn write_patch(schema: &mut Map<String, Value>, patch: &PatchStrategy) {
    if !patch.key.is_empty() {
        schema.insert("x-kubernetes-patch-merge-key".to_owned(), patch.key.clone().into());
    }
    let strategies: Vec<&str> = [(patch.merge, "merge"), (patch.retain_keys, "retainKeys")]
        .into_iter()
        .filter(|one| one.0)
        .map(|one| one.1)
        .collect();
    if !strategies.is_empty() {
        schema.insert("x-kubernetes-patch-strategy".to_owned(), strategies.join(",").into());
    }
}
