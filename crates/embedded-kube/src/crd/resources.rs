//! What follows from a CRD: one resource per served version.

use std::sync::Arc;

use serde_json::Value;

use super::{
    columns::Table,
    custom::Custom,
    view::{self, flag},
};
use crate::{
    object::{at, text},
    registry::{Resource, ResourceId, Scale, api_version},
    schema::{Compiled, Schema},
};

const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Served versions, each with its rules. `since` is the revision of the CRD's last change of schema.
pub fn resources(crd: &Value, since: u64) -> Vec<Resource> {
    view::versions(crd)
        .iter()
        .filter(|version| flag(version, "served"))
        .map(|version| resource(crd, version, since))
        .collect()
}

/// The stored version, served or not, for those who must reach the objects whatever clients see.
pub fn any_resource(crd: &Value) -> Resource {
    let empty = Value::Null;
    let stored = view::versions(crd).iter().find(|version| flag(version, "storage"));
    resource(crd, stored.or_else(|| view::versions(crd).first()).unwrap_or(&empty), 0)
}

fn resource(crd: &Value, version: &Value, since: u64) -> Resource {
    let names = Some(view::accepted_names(crd)).filter(|names| !names.plural.is_empty());
    let names = names.unwrap_or_else(|| view::spec_names(crd));
    let (group, name) = (text(crd, &["spec", "group"]), text(version, &["name"]));
    let storage_version = view::storage_version(crd);
    let empty = Value::Null;
    let schema = at(version, &["schema", "openAPIV3Schema"]).unwrap_or(&empty);
    let rules = Custom {
        schema: Compiled::lenient(Schema::parse(schema)),
        source: schema.clone(),
        table: Table::of(version),
        has_status: at(version, &["subresources", "status"]).is_some_and(|it| !it.is_null()),
        scale: at(version, &["subresources", "scale"]).filter(|it| !it.is_null()).map(scale),
        api_version: api_version(group, name),
        storage_api_version: api_version(group, storage_version),
        terminating: view::is_true(crd, "Terminating"),
        deprecation: flag(version, "deprecated").then(|| deprecation(crd, version)),
    };
    Resource {
        id: ResourceId { group: group.to_owned(), version: name.to_owned(), plural: names.plural.clone() },
        kind: names.kind,
        list_kind: names.list_kind,
        singular: names.singular,
        short_names: names.short_names,
        categories: names.categories,
        namespaced: text(crd, &["spec", "scope"]) == "Namespaced",
        verbs: VERBS,
        status: rules.has_status,
        scale: rules.scale.clone(),
        shape: rules.schema.shape(),
        columns: rules.table.columns(),
        selectable: selectable(version),
        storage: format!("{group}/{}", names.plural),
        storage_version: storage_version.to_owned(),
        custom: true,
        schema_since: since,
        rules: Arc::new(rules),
    }
}

fn scale(scale: &Value) -> Scale {
    let path = |key: &str| text(scale, &[key]).trim_start_matches('.').to_owned();
    Scale {
        spec: path("specReplicasPath"),
        status: path("statusReplicasPath"),
        selector: Some(path("labelSelectorPath")).filter(|path| !path.is_empty()),
    }
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let paths = fields.into_iter().flatten().map(|field| text(field, &["jsonPath"]));
    paths.map(|path| path.trim_start_matches('.').to_owned()).collect()
}

/// What a deprecated version says: its own words, or that there is a better one.
fn deprecation(crd: &Value, version: &Value) -> String {
    let given = text(version, &["deprecationWarning"]);
    if !given.is_empty() {
        return given.to_owned();
    }
    let (group, name) = (text(crd, &["spec", "group"]), text(version, &["name"]));
    let kind = text(crd, &["spec", "names", "kind"]);
    let text_of = format!("{group}/{name} {kind} is deprecated");
    let better = view::versions(crd)
        .iter()
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .map(|other| text(other, &["name"]))
        .filter(|other| super::order::rank(other) > super::order::rank(name))
        .max_by_key(|other| super::order::rank(other));
    match better {
        Some(better) => format!("{text_of}; use {group}/{better} {kind}"),
        None => text_of,
    }
}
