//! Paths and operations: enough for clients that look up a kind or a parameter.

use serde_json::{Map, Value, json};

use super::{
    custom,
    schemas::{Dialect, PATCH_MODEL},
};
use crate::{discovery::subresources, registry::Resource, types};

const WRITE: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const APPLY: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// A kind with its model name.
#[derive(Debug, Clone)]
pub struct ModelKind {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Name.
    pub name: String,
    /// `OpenAPI` model name.
    pub model: String,
}

impl ModelKind {
    fn new(group: &str, version: &str, kind: &str) -> Self {
        let model = types::shape_of(group, version, kind)
            .and_then(|shape| shape.name().map(str::to_owned))
            .unwrap_or_else(|| custom::model_name(group, version, kind));
        Self { group: group.to_owned(), version: version.to_owned(), name: kind.to_owned(), model }
    }
}

/// Kinds of a resource's bodies: its own first, then its list, then those of subresources.
pub fn resource_kinds(resource: &Resource) -> Vec<ModelKind> {
    let (group, version) = (resource.id.group.as_str(), resource.id.version.as_str());
    let mut kinds = vec![ModelKind::new(group, version, &resource.kind)];
    if resource.verbs.contains(&"list") {
        kinds.push(ModelKind::new(group, version, &resource.list_kind));
    }
    for sub in subresources(resource) {
        let (group, version) = sub.group_version.unwrap_or((group, version));
        kinds.push(ModelKind::new(group, version, sub.kind));
    }
    kinds
}

/// An operation to be written.
struct Operation<'a> {
    action: &'a str,
    kind: &'a ModelKind,
    query: &'a [(&'a str, &'a str)],
    request_model: Option<&'a str>,
    response_model: &'a str,
    custom: bool,
}

/// Adds the paths of a resource.
pub fn add_paths(paths: &mut Map<String, Value>, resource: &Resource, dialect: Dialect) {
    let (group, version) = (resource.id.group.as_str(), resource.id.version.as_str());
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let plural = &resource.id.plural;
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{plural}");
    let kind = ModelKind::new(group, version, &resource.kind);
    let list = ModelKind::new(group, version, &resource.list_kind);
    let writer = PathWriter { resource, dialect, kind: &kind, list: &list };
    let mut add = |path: String, operations: Vec<MethodOperation>| {
        if !operations.is_empty() {
            let item = writer.path(&path, operations);
            paths.insert(path, item);
        }
    };
    if resource.namespaced {
        add(format!("{root}/{plural}"), writer.list_all().into_iter().collect());
    }
    add(format!("{collection}/{{name}}"), writer.single());
    add(collection.clone(), writer.collection());
    for sub in subresources(resource) {
        let (group, version) = sub.group_version.unwrap_or((group, version));
        let kind = ModelKind::new(group, version, sub.kind);
        let operations = sub
            .verbs
            .iter()
            .filter_map(|verb| subresource_operation(verb, &kind, resource.is_custom, dialect));
        add(format!("{collection}/{{name}}/{}", sub.name), operations.collect());
    }
}

fn subresource_operation(
    verb: &str,
    kind: &ModelKind,
    custom: bool,
    dialect: Dialect,
) -> Option<MethodOperation> {
    let own = kind.model.as_str();
    let (method, query, takes) = match verb {
        "get" => ("get", &[][..], None),
        "create" => ("post", WRITE, Some(own)),
        "update" => ("put", WRITE, Some(own)),
        "patch" => ("patch", APPLY, Some(PATCH_MODEL)),
        _ => return None,
    };
    let operation =
        Operation { action: method, kind, query, request_model: takes, response_model: own, custom };
    Some((method, operation_json(&operation, dialect)))
}

/// A method and its operation.
type MethodOperation = (&'static str, Value);

struct PathWriter<'a> {
    resource: &'a Resource,
    dialect: Dialect,
    kind: &'a ModelKind,
    list: &'a ModelKind,
}

impl PathWriter<'_> {
    fn list_all(&self) -> Option<MethodOperation> {
        self.operation("list", ("get", "list"), LIST, (None, &self.list.model))
    }

    fn collection(&self) -> Vec<MethodOperation> {
        let own = self.kind.model.as_str();
        let create = self.operation("create", ("post", "post"), WRITE, (Some(own), own));
        let method = ("delete", "deletecollection");
        let delete = self.operation("deletecollection", method, DELETE, (Some(DELETE_OPTIONS), STATUS));
        self.list_all().into_iter().chain(create).chain(delete).collect()
    }

    fn single(&self) -> Vec<MethodOperation> {
        let own = self.kind.model.as_str();
        let all = [
            self.operation("get", ("get", "get"), &[], (None, own)),
            self.operation("update", ("put", "put"), WRITE, (Some(own), own)),
            self.operation("delete", ("delete", "delete"), DELETE, (Some(DELETE_OPTIONS), STATUS)),
            self.operation("patch", ("patch", "patch"), APPLY, (Some(PATCH_MODEL), own)),
        ];
        all.into_iter().flatten().collect()
    }

    fn operation(
        &self,
        verb: &str,
        (method, action): (&'static str, &str),
        query: &[(&str, &str)],
        (takes, gives): (Option<&str>, &str),
    ) -> Option<MethodOperation> {
        let operation = Operation {
            action,
            kind: self.kind,
            query,
            request_model: takes,
            response_model: gives,
            custom: self.resource.is_custom,
        };
        self.resource.verbs.contains(&verb).then(|| (method, operation_json(&operation, self.dialect)))
    }

    /// A path with its operations and their common parameters.
    fn path(&self, path: &str, operations: Vec<MethodOperation>) -> Value {
        let mut item: Map<String, Value> =
            operations.into_iter().map(|(method, operation)| (method.to_owned(), operation)).collect();
        let mut parameters = Vec::new();
        if path.contains("{name}") {
            let mut name = parameter("name", "path", "string", self.dialect);
            name["description"] = format!("name of the {}", self.kind.name).into();
            parameters.push(name);
        }
        if path.contains("{namespace}") && self.resource.namespaced {
            parameters.push(parameter("namespace", "path", "string", self.dialect));
        }
        parameters.push(parameter("pretty", "query", "string", self.dialect));
        item.insert("parameters".to_owned(), parameters.into());
        item.into()
    }
}

fn parameter(name: &str, place: &str, kind: &str, dialect: Dialect) -> Value {
    let mut value = json!({"name": name, "in": place});
    if place == "path" {
        value["required"] = true.into();
    }
    match dialect {
        Dialect::V2 => {
            value["type"] = kind.into();
            value["uniqueItems"] = true.into();
        }
        Dialect::V3 => value["schema"] = json!({"type": kind, "uniqueItems": true}),
    }
    value
}

fn operation_json(operation: &Operation<'_>, dialect: Dialect) -> Value {
    let kind = operation.kind;
    let schema = |model: &str| json!({"$ref": dialect.reference(model)});
    let mut parameters: Vec<Value> =
        operation.query.iter().map(|(name, kind)| parameter(name, "query", kind, dialect)).collect();
    let tag = format!("{}_{}", if kind.group.is_empty() { "core" } else { &kind.group }, kind.version);
    let mut value = json!({"tags": [tag], "description": format!("{} {}", operation.action, kind.name)});
    let good = match dialect {
        Dialect::V2 => {
            if let Some(takes) = operation.request_model {
                let body = json!({"name": "body", "in": "body", "required": true, "schema": schema(takes)});
                parameters.insert(0, body);
            }
            value["consumes"] = media_types(operation, "*/*");
            value["produces"] = json!(["application/json"]);
            value["schemes"] = json!(["https"]);
            json!({"description": "OK", "schema": schema(operation.response_model)})
        }
        Dialect::V3 => {
            if let Some(takes) = operation.request_model {
                let kinds = media_types(operation, if operation.custom { "application/json" } else { "*/*" });
                let content: Map<String, Value> = kinds
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(|kind| (kind.to_owned(), json!({"schema": schema(takes)})))
                    .collect();
                value["requestBody"] = json!({"content": content, "required": true});
            }
            let content = json!({"application/json": {"schema": schema(operation.response_model)}});
            json!({"description": "OK", "content": content})
        }
    };
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    value["responses"] = json!({"200": good, "401": {"description": "Unauthorized"}});
    value["x-kubernetes-action"] = operation.action.into();
    value["x-kubernetes-group-version-kind"] =
        json!({"group": kind.group, "version": kind.version, "kind": kind.name});
    value
}

fn media_types(operation: &Operation<'_>, other: &str) -> Value {
    if operation.action != "patch" {
        return json!([other]);
    }
    let mut kinds =
        vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    if !operation.custom {
        kinds.push("application/strategic-merge-patch+json");
    }
    kinds.into()
}
