//! Whole documents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    custom,
    describe::Descriptions,
    operations::{self, Kind},
    schemas::{self, Dialect},
};
use crate::registry::{Catalogue, Resource};

/// Types of every document: bodies and answers that no resource has for its own.
const ALWAYS: [&str; 5] = [
    schemas::PATCH,
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    STATUS,
];
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
/// Kinds that every group has.
const COMMON: [&str; 1] = ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];

/// Everything that is served, as Swagger 2.0.
pub fn v2(catalogue: &Catalogue) -> Value {
    let members: Vec<&Resource> = catalogue.values().map(AsRef::as_ref).collect();
    let (paths, definitions) = parts(&members, Dialect::V2);
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths, "definitions": definitions,
        "securityDefinitions": {"BearerToken": bearer()}, "security": [{"BearerToken": []}],
    })
}

/// One group and version, as `OpenAPI` 3.0.
pub fn v3(members: &[&Resource]) -> Value {
    let (paths, schemas) = parts(members, Dialect::V3);
    if members.iter().all(|one| one.custom) {
        let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
        return json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}});
    }
    let info = json!({"title": "Kubernetes", "version": "1.36"});
    let components = json!({"schemas": schemas, "securitySchemes": {"BearerToken": bearer()}});
    json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})
}

fn bearer() -> Value {
    json!({"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"})
}

fn parts(members: &[&Resource], dialect: Dialect) -> (Map<String, Value>, Map<String, Value>) {
    let mut paths = Map::new();
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let mut groups = BTreeSet::from([("", "v1")]);
    for resource in members {
        operations::add(&mut paths, resource, dialect);
        groups.insert((&resource.id.group, &resource.id.version));
        kinds.extend(operations::kinds(resource).into_iter().map(|kind| (kind.model.clone(), kind)));
    }
    let roots: BTreeSet<&str> = kinds.keys().map(String::as_str).chain(ALWAYS).collect();
    let descriptions = Descriptions::of(roots.iter().copied().chain([custom::WORDS]));
    let mut all = schemas::closure(roots.iter().copied(), &descriptions, dialect);
    for (model, kind) in &kinds {
        if let Some(schema) = all.get_mut(model) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": kind.group, "kind": kind.name, "version": kind.version}]);
        }
    }
    if let Some(schema) = all.get_mut(STATUS) {
        schema["x-kubernetes-group-version-kind"] = json!([{"group": "", "kind": "Status", "version": "v1"}]);
    }
    for model in COMMON {
        if let Some(schema) = all.get_mut(model) {
            let kind = model.rsplit('.').next().unwrap_or_default();
            schema["x-kubernetes-group-version-kind"] = groups
                .iter()
                .map(|(group, version)| json!({"group": group, "kind": kind, "version": version}))
                .collect();
        }
    }
    for resource in members.iter().filter(|one| one.custom) {
        let name = |kind: &str| custom::model(&resource.id.group, &resource.id.version, kind);
        all.insert(name(&resource.kind), custom::object(resource, &descriptions, dialect));
        all.insert(name(&resource.list_kind), custom::list(resource, &descriptions, dialect));
    }
    paths.sort_keys();
    (paths, all.into_iter().collect())
}
