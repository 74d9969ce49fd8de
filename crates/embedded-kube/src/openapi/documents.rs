//! Complete documents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    custom,
    descriptions::Descriptions,
    operations::{self, ModelKind},
    schemas::{self, Dialect},
};
use crate::registry::{Catalogue, Resource};

/// Types of every document: request and response bodies that are not resources.
const COMMON_MODELS: [&str; 5] = [
    schemas::PATCH_MODEL,
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    STATUS,
];
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
/// Kinds that every group has.
const SHARED_KINDS: [&str; 1] = ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];

/// All served resources, as Swagger 2.0.
pub fn v2_document(catalogue: &Catalogue) -> Value {
    let members: Vec<&Resource> = catalogue.values().map(AsRef::as_ref).collect();
    let (paths, definitions) = schemas_and_paths(&members, Dialect::V2);
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths, "definitions": definitions,
        "securityDefinitions": {"BearerToken": bearer_security()}, "security": [{"BearerToken": []}],
    })
}

/// One group and version, as `OpenAPI` 3.0.
pub fn v3_document(members: &[&Resource]) -> Value {
    let (paths, schemas) = schemas_and_paths(members, Dialect::V3);
    if members.iter().all(|one| one.is_custom) {
        let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
        return json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}});
    }
    let info = json!({"title": "Kubernetes", "version": "1.36"});
    let components = json!({"schemas": schemas, "securitySchemes": {"BearerToken": bearer_security()}});
    json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})
}

fn bearer_security() -> Value {
    json!({"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"})
}

fn schemas_and_paths(members: &[&Resource], dialect: Dialect) -> (Map<String, Value>, Map<String, Value>) {
    let mut paths = Map::new();
    let mut kinds: BTreeMap<String, ModelKind> = BTreeMap::new();
    let mut groups = BTreeSet::from([("", "v1")]);
    for resource in members {
        operations::add_paths(&mut paths, resource, dialect);
        groups.insert((&resource.id.group, &resource.id.version));
        kinds.extend(operations::resource_kinds(resource).into_iter().map(|kind| (kind.model.clone(), kind)));
    }
    let roots: BTreeSet<&str> = kinds.keys().map(String::as_str).chain(COMMON_MODELS).collect();
    let descriptions = Descriptions::from_roots(roots.iter().copied().chain([custom::DESCRIPTIONS_FROM]));
    let mut all = schemas::transitive_schemas(roots.iter().copied(), &descriptions, dialect);
    for (model, kind) in &kinds {
        if let Some(schema) = all.get_mut(model) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": kind.group, "kind": kind.name, "version": kind.version}]);
        }
    }
    if let Some(schema) = all.get_mut(STATUS) {
        schema["x-kubernetes-group-version-kind"] = json!([{"group": "", "kind": "Status", "version": "v1"}]);
    }
    for model in SHARED_KINDS {
        if let Some(schema) = all.get_mut(model) {
            let kind = model.rsplit('.').next().unwrap_or_default();
            schema["x-kubernetes-group-version-kind"] = groups
                .iter()
                .map(|(group, version)| json!({"group": group, "kind": kind, "version": version}))
                .collect();
        }
    }
    for resource in members.iter().filter(|one| one.is_custom) {
        let name = |kind: &str| custom::model_name(&resource.id.group, &resource.id.version, kind);
        all.insert(name(&resource.kind), custom::object_schema(resource, &descriptions, dialect));
        all.insert(name(&resource.list_kind), custom::list_schema(resource, &descriptions, dialect));
    }
    paths.sort_keys();
    (paths, all.into_iter().collect())
}
